// ObjectHasher and PartHasher: addresses and outboards of bytes that come in slices, or group by group.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "crypto/blake3.h"
#include "crypto/group_hasher.h"

namespace cairn::crypto {

struct ObjectHash {
  Address address;
  std::uint64_t size = 0;
  std::vector<Hash> groups;  // never empty; the only group of an object is its address
};

// A whole object, in order. Slices may have any size; multiples of 64 KiB are fastest. About 10 KB.
class ObjectHasher {
 public:
  void update(ByteView bytes);
  // Call it once; afterwards the hasher can only be destroyed.
  ObjectHash finish();

  std::uint64_t size() const noexcept { return size_; }

 private:
  GroupHasher group_{0};
  std::uint64_t size_ = 0;
  std::vector<Hash> groups_;
};

struct PartHash {
  Hash hash{};
  // Of part 0 only: the address of the object if it turns out to be this part alone. An upload learns that
  // when it is committed, long after the part was hashed. If the part has one group, this is then the hash of
  // that group too.
  Hash alone{};
  std::size_t size = 0;
  std::array<Hash, groups_per_part> groups{};
  unsigned group_count = 0;  // 1 for an empty object's only part

  std::span<const Hash> group_span() const noexcept { return {groups.data(), group_count}; }
};

// One part, of at most 1 MiB, at offset part_index * 1 MiB of its object, whose groups lie in memory as they
// arrived. Parts may be hashed in any order.
class PartHasher {
 public:
  explicit PartHasher(std::uint64_t part_index) noexcept : index_(part_index) {}

  // The next group, a whole one. Not the last of the part.
  void add(ByteView group) noexcept;
  // The last group; it is empty only in an empty object. `only_part`: the object is this part alone, so its
  // hash is the address. Once.
  PartHash finish(ByteView last, bool only_part) noexcept;

 private:
  std::uint64_t index_;
  PartHash part_;
};

}  // namespace cairn::crypto
