// Verified bodies: an object's bytes on their way from an upstream that is not believed.
//   [GV-1] No byte of an object leaves before it is proved, except those of a whole object before its last
//          group. That group leaves only when the whole fits the address, so that a client never sees a right
//          end behind a wrong byte.
//   [GV-2] What the upstream sends piece by piece is gathered in one block of a group.
//   [GV-3] The try of the request is judged once: when the last byte is proved, or the first wrong one found.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "crypto/object_hasher.h"
#include "crypto/proof.h"
#include "http/range.h"
#include "runtime/buffer.h"
#include "runtime/task.h"
#include "services/gateway/way.h"

namespace cairn::gateway {

// A proof of some bytes, and the block of the slab in which it keeps the hashes of their groups.
//   [GV-4] It proves at most `groups_max` groups, 128 MiB: so many hashes as fit into the largest block. So
//         the memory of proofs is bounded, and counted like that of bodies.
struct RangeProof {
  static constexpr std::size_t groups_max = Slab::large / sizeof(crypto::Hash);
  // Bytes beyond the object's end are not asked for.
  RangeProof(Slab& slab, const Address& address, http::ByteRange bytes)
      : hashes(slab.take(count(bytes) * sizeof(crypto::Hash))),
        reader(address, bytes.first, bytes.last,
               {reinterpret_cast<crypto::Hash*>(hashes.room().data()), count(bytes)}) {}

  Buffer hashes;
  crypto::ProofReader reader;

 private:
  static std::size_t count(http::ByteRange bytes) noexcept {
    const std::uint64_t groups = crypto::groups_of_bytes(bytes.first, bytes.last).count();
    return static_cast<std::size_t>(std::min<std::uint64_t>(groups, groups_max));
  }
};

// The whole object of `size` bytes, not empty. An error: the bytes are not those of the address, or the
// upstream's own.
class WholeSource final : public io::BodySource, public PooledFrame {
 public:
  // The slab and the way of the try outlive it.
  WholeSource(serve::Peer::Handle call, Way::Try one, Slab& slab, const Address& address, std::uint64_t size);
  Task<Result<io::Piece>> next(Call call) override;

 private:
  Task<Result<io::Piece>> finish(Call call);
  void hash(const Buffer& slice);
  void keep(Buffer slice);

  serve::Peer::Handle call_;
  Way::Try one_;
  Slab& slab_;
  Address address_;
  std::uint64_t left_;   // bytes that the upstream has not given yet
  std::uint64_t ahead_;  // of these, before the last group
  Buffer slice_;         // of the upstream, not yet passed on
  Buffer last_;          // the last group, as far as it has come
  // From the first byte on. It is large, and a client that takes nothing should not cost it.
  std::unique_ptr<crypto::ObjectHasher> hasher_;
};

// Some bytes of an object, cut out of its groups, each of which `proof` verifies.
class RangeSource final : public io::BodySource, public PooledFrame {
 public:
  RangeSource(serve::Peer::Handle call, Way::Try one, Slab& slab, RangeProof proof, http::ByteRange range);
  Task<Result<io::Piece>> next(Call call) override;

 private:
  Task<Result<>> gather(Call call, std::size_t wanted);

  serve::Peer::Handle call_;
  Way::Try one_;
  Slab& slab_;
  RangeProof proof_;
  http::ByteRange range_;
  std::uint64_t at_;  // where the next group begins
  Buffer slice_;
  Buffer group_;
};

}  // namespace cairn::gateway
