// The outboard: the nodes at and above group level, and the proofs cut from it.
//
// A proof (`application/vnd.cairn.outboard`) is the object's size as u64 little-endian, then, in pre-order,
// the 64-byte parents (left hash, right hash) over the groups that a byte range touches.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "crypto/blake3.h"

namespace cairn::crypto {

inline constexpr std::uint64_t object_size_max = std::uint64_t{1} << 62;
inline constexpr std::size_t proof_head_size = 8;  // the object's size
inline constexpr std::size_t parent_size = 64;

// At least one: an empty object is one group, in one part, of no bytes.
constexpr std::uint64_t group_count(std::uint64_t size) noexcept {
  return size == 0 ? 1 : (size - 1) / group_size + 1;
}
constexpr std::uint64_t part_count(std::uint64_t size) noexcept {
  return size == 0 ? 1 : (size - 1) / part_size + 1;
}
// The bytes of group `index`, which is below group_count(size).
constexpr std::size_t group_length(std::uint64_t size, std::uint64_t index) noexcept {
  const std::uint64_t left = size - index * group_size;
  return left < group_size ? static_cast<std::size_t>(left) : group_size;
}

// A subtree: groups first .. end-1 of an object.
struct GroupSpan {
  std::uint64_t first = 0;
  std::uint64_t end = 0;

  constexpr std::uint64_t count() const noexcept { return end - first; }
  constexpr bool touches(GroupSpan other) const noexcept { return first < other.end && other.first < end; }
  // Where a subtree of at least two groups divides: the left side is the largest complete tree that
  // leaves something for the right.
  constexpr std::uint64_t middle() const noexcept { return first + std::bit_floor(count() - 1); }

  friend bool operator==(const GroupSpan&, const GroupSpan&) = default;
};

// The groups of bytes first..last inclusive.
constexpr GroupSpan groups_of_bytes(std::uint64_t first_byte, std::uint64_t last_byte) noexcept {
  return {first_byte / group_size, last_byte / group_size + 1};
}

// The bytes of the proof of first..last. first <= last < size; 0 and 0 for an empty object.
std::uint64_t proof_size(std::uint64_t size, std::uint64_t first_byte, std::uint64_t last_byte) noexcept;

// Writes the proof of bytes first..last from the part hashes, and from the group hashes of the parts that the
// range touches. The caller fetches those parts one at a time, when asked.
//
//   while (!builder.done()) {
//     if (auto part = builder.wants_part()) TRY_VOID(builder.give_part(groups of *part));
//     send(buffer, builder.write(buffer));
//   }
//
// Memory is constant (about 1.5 KB). The hashes of inner nodes above the parts are computed as they are
// written: the first items cost one merge for each part (10 ns or so).
//
// Invariants:
// 1. The bytes written are a prefix of the proof, cut between items.
// 2. A part is wanted at most once, and parts are wanted in ascending order.
class ProofBuilder {
 public:
  // Range as for proof_size; `parts` are all part_count(size) parts, and outlive the builder. The hash of
  // an object's only part is its address.
  ProofBuilder(std::uint64_t size, std::uint64_t first_byte, std::uint64_t last_byte,
               std::span<const Hash> parts) noexcept;

  // The part whose groups write() needs next; nullopt when it needs none.
  std::optional<std::uint64_t> wants_part() const noexcept;
  // All groups of the wanted part, which are copied. If they do not merge to the part's hash, the error is
  // integrity and the part is still wanted.
  Result<> give_part(std::span<const Hash> groups) noexcept;

  // Fills `out` with whole items (of 8 bytes, then 64) until it is full, a part is wanted or all is done;
  // answers the bytes written. With 64 bytes there is always progress.
  std::size_t write(MutableByteView out) noexcept;
  bool done() const noexcept { return size_written_ && depth_ == 0; }

 private:
  static constexpr std::uint64_t no_part = ~std::uint64_t{0};

  GroupSpan all() const noexcept { return {0, crypto::group_count(size_)}; }
  // Whether the node consists of whole parts, so that its hash is known without their groups.
  bool is_of_parts(GroupSpan node) const noexcept;
  Hash hash_of(GroupSpan node) const noexcept;
  void push(GroupSpan node) noexcept;

  std::uint64_t size_;
  GroupSpan range_;
  std::span<const Hash> parts_;
  bool size_written_ = false;
  std::uint64_t held_part_ = no_part;  // the part whose groups are in groups_
  std::array<Hash, groups_per_part> groups_{};
  unsigned depth_ = 0;
  std::array<GroupSpan, 64> pending_{};  // parents still to write, the next one last
};

}  // namespace cairn::crypto
