// ProofReader: verifies a proof against an address while it arrives, then the groups it covers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "crypto/outboard.h"

namespace cairn::crypto {

inline constexpr std::uint64_t proof_groups_max = 65536;

// Reads the proofs that ProofBuilder writes; the peer that sends them is not trusted.
//
// The size is only a claim until the last group of the object was verified: then no other size is possible.
// Even before that, verified bytes are proved to be the object's bytes at their offsets.
//
// Invariants:
// 1. A parent is used only after its hash was found in its own parent, or is the address.
// 2. Memory grows with the parents that were verified, never with the peer's claims.
// 3. After an error every call fails.
class ProofReader {
 public:
  // Bytes first..last inclusive, first <= last. A range that reaches beyond the object ends with it, so
  // that the caller need not know the size; one that begins beyond it is an error.
  ProofReader(const Address& address, std::uint64_t first_byte, std::uint64_t last_byte) noexcept;
  // The same, but it keeps the groups' hashes in `room`, which outlives it, and takes no more groups than
  // that.
  ProofReader(const Address& address, std::uint64_t first_byte, std::uint64_t last_byte,
              std::span<Hash> room) noexcept;

  // Takes the next bytes and returns how many of them belong to the proof: all until it is done, none
  // afterwards. Errors: integrity when a parent is wrong or the object ends before the range, malformed for a
  // size that no object has, body_cap when the range has more than 65536 groups, or than there is room for.
  Result<std::size_t> update(ByteView bytes);
  // All parents were read and verified: the groups may come.
  bool done() const noexcept { return state_ == State::done; }

  // As the peer claims; 0 until its eight bytes were read.
  std::uint64_t size() const noexcept { return size_; }
  // The groups that verify_group knows; empty until done().
  GroupSpan groups() const noexcept { return done() ? range_ : GroupSpan{}; }

  // Whether `bytes` are group `index` of the object, in any order and as often as wanted. Error integrity
  // where they are not, or where the proof is not done or does not cover the group.
  Result<> verify_group(std::uint64_t index, ByteView bytes) const noexcept;

 private:
  enum class State : std::uint8_t { size, parents, done, failed };
  struct Node {
    GroupSpan span;
    Hash hash;
  };

  Result<> take_size();
  Result<> take_parent();
  void push(GroupSpan span, const Hash& hash) noexcept;
  // Moves the next groups in order from the pending nodes to groups_.
  void settle();
  const Hash& hash_of(std::uint64_t index) const noexcept {
    const auto at = static_cast<std::size_t>(index - range_.first);
    return has_room_ ? room_[at] : groups_[at];
  }

  Address address_;
  std::uint64_t first_byte_;
  std::uint64_t last_byte_;
  std::uint64_t size_ = 0;
  GroupSpan range_;
  State state_ = State::size;
  Error error_;
  std::array<std::byte, parent_size> item_{};
  std::size_t item_bytes_ = 0;
  unsigned depth_ = 0;
  std::array<Node, 64> pending_{};  // known hashes of nodes not yet opened, the next one last
  std::vector<Hash> groups_;
  bool has_room_ = false;
  std::span<Hash> room_;
  std::size_t in_room_ = 0;
};

}  // namespace cairn::crypto
