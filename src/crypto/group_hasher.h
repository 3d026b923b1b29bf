// GroupHasher: one group after the other from slices of any size.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "crypto/blake3.h"

namespace cairn::crypto {

inline constexpr std::size_t chunks_per_group = group_size / chunk_size;

// The hashes of consecutive whole chunks, none of them an object of its own.
void hash_chunks(const std::byte* bytes, std::size_t count, std::uint64_t first_chunk, Hash* out) noexcept;
// The hash of a group from those of its first chunks, none or at least two, and the bytes that follow them.
// Writes behind the first `chunks` of `hashes`.
Hash hash_group_of(std::span<Hash, chunks_per_group> hashes, std::size_t chunks, ByteView rest,
                   std::uint64_t group_index, bool root) noexcept;

// Whole groups, and runs of eight chunks, are hashed where they lie. The remainder of a slice is copied, to
// be hashed with the next slice. Chunks in a row share the processor's SIMD lanes: hashing a chunk alone
// takes five times as long as copying it and hashing it in a run. About 10 KB.
//
// Invariants:
// 1. A group that may turn out to be the whole object is not closed before another byte follows. (For a
//    single chunk the same follows from 2.)
// 2. Chunks are closed in runs, or by hash().
class GroupHasher {
 public:
  explicit GroupHasher(std::uint64_t first_group) noexcept : index_(first_group) {}

  // Hands the hashes of groups that are complete, and not the last of the object, to
  // emit(std::span<const Hash>), in order.
  template <class Emit>
  void update(ByteView bytes, Emit&& emit) {
    std::array<Hash, groups_per_part> whole;
    while (!bytes.empty()) {
      if (size() == group_size) {
        whole[0] = hash(false);
        emit(std::span<const Hash>(whole.data(), 1));
        advance(1);
      }
      const std::size_t count = std::min(whole_groups(bytes.size()), whole.size());
      if (count == 0) {
        bytes = bytes.subspan(take(bytes));
        continue;
      }
      const std::span<Hash> hashes(whole.data(), count);
      hash_groups(bytes.first(count * group_size), index_, hashes);
      emit(std::span<const Hash>(hashes));
      advance(count);
      bytes = bytes.subspan(count * group_size);
    }
  }

  // The hash of the group under way as it is now; more bytes may follow.
  Hash hash(bool root) noexcept;
  // Bytes of the group under way. 0 only when update() got no bytes since the last group, or none at all.
  std::size_t size() const noexcept { return chunks_ * chunk_size + buffered_; }
  std::uint64_t index() const noexcept { return index_; }

 private:
  // How many groups that begin here may be hashed at once, with `available` bytes to come.
  std::size_t whole_groups(std::size_t available) const noexcept {
    if (size() != 0 || (index_ == 0 && available == group_size)) return 0;
    return available / group_size;
  }
  // Takes bytes of the group under way and answers how many: all, or as many as complete it.
  std::size_t take(ByteView bytes) noexcept;
  void close(const std::byte* bytes, std::size_t chunks) noexcept;
  void advance(std::size_t groups) noexcept;

  static constexpr std::size_t run_size = 8 * chunk_size;
  static_assert(group_size % run_size == 0);

  std::uint64_t index_;
  std::size_t chunks_ = 0;  // closed: their hashes are in hashes_
  std::size_t buffered_ = 0;
  std::array<Hash, chunks_per_group> hashes_;
  std::array<std::byte, run_size> buffer_;
};

}  // namespace cairn::crypto
