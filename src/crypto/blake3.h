// BLAKE3 as a tree: chaining values of groups and parts, and how they merge to an object's address.
//
// An object is cut into groups of 64 KiB, sixteen groups are a part of 1 MiB. Both are whole subtrees of
// BLAKE3's own tree, so each can be hashed alone, in any order, and the hashes merge to the BLAKE3-256 of
// the whole. The topmost node of an object is hashed with a flag of its own (`root`): a node that is the
// whole object has another hash than the same bytes as a part of a larger one.
// An empty object is one group of no bytes.
#pragma once

#include <blake3.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/address.h"
#include "base/bytes.h"

namespace cairn::crypto {

inline constexpr std::size_t chunk_size = 1024;
inline constexpr std::size_t group_size = 65536;
inline constexpr std::size_t part_size = 1 << 20;
inline constexpr std::size_t groups_per_part = part_size / group_size;

using Hash = std::array<std::byte, 32>;

// The library detects the processor's features at its first call, without synchronisation: call this once
// before threads start.
void warm_up() noexcept;

// The hash of one group of at most 64 KiB. `root`: it is the whole object (so its index is 0).
Hash hash_group(ByteView bytes, std::uint64_t group_index, bool root) noexcept;
// The hashes of consecutive whole groups, none of them an object of its own: bytes.size() is
// out.size() * group_size. Faster than one by one: the upper levels of several groups share the lanes.
void hash_groups(ByteView bytes, std::uint64_t first_group, std::span<Hash> out) noexcept;

// The parent of two nodes.
Hash merge(const Hash& left, const Hash& right, bool root) noexcept;
// The node over consecutive nodes of the same level, of which only the last may be incomplete: groups to a
// part, parts to an object. A single node is returned as it is: with `root` it was hashed as root.
Hash merge_all(std::span<const Hash> nodes, bool root) noexcept;

Address hash_object(ByteView whole) noexcept;

// BLAKE3's keyed mode: a MAC of its own, unrelated to the tree above.
Hash keyed_hash(const Hash& key, ByteView bytes) noexcept;

// The same for bytes that come in slices. About 2 KB.
class KeyedHasher {
 public:
  explicit KeyedHasher(const Hash& key) noexcept;

  void update(ByteView bytes) noexcept;
  // The hash of the bytes so far.
  Hash finish() const noexcept;

 private:
  blake3_hasher state_;
};

}  // namespace cairn::crypto
