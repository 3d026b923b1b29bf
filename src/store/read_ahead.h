// ReadAhead: consecutive groups of one part that came with one read. They are verified when they are taken:
// just before they are sent, so that the bytes are near when the socket copies them, and a few at a time, so
// that no step of a shard is long.
//
//   [RA-1] The groups that take() gives were checked against the part's hashes, in the memory that it gives.
//   [RA-2] A group that does not match is dropped, with everything behind it. A reader that needs it reads it
//         again, by a path that says what is wrong with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "crypto/outboard.h"
#include "io/read_block.h"
#include "runtime/buffer.h"
#include "store/group_cache.h"
#include "store/part_map.h"

namespace cairn::store {

// One verified group, in the cache or in a buffer of this shard; or several, side by side in a block.
struct GroupBytes {
  GroupCache::Ref ref;
  Buffer buffer;
  io::ReadBlock block;
  ByteView in_block;
  ByteView bytes() const noexcept { return ref ? ref.bytes() : block ? in_block : buffer.bytes(); }
};

class ReadAhead {
 public:
  // How many groups are verified and given out at once, at most. 512 KiB: some 80 us, and still in a core's
  // own cache when it is sent. Smaller steps wake the receiver more often, larger ones fall out of that
  // cache.
  static constexpr std::uint64_t step_groups = 8;

  ReadAhead() = default;
  // `bytes` of the block are the groups from `first` on; only the last of them may be short. No group is a
  // whole object.
  ReadAhead(io::ReadBlock block, ByteView bytes, std::shared_ptr<const PartMap> map,
            std::uint64_t first) noexcept;

  // Takes out groups from `group` on, below `end`, if they are here and right.
  std::optional<GroupBytes> take(std::uint64_t group, std::uint64_t end) noexcept;
  bool empty() const noexcept { return !block_; }

 private:
  io::ReadBlock block_;
  ByteView bytes_;  // not taken yet
  std::shared_ptr<const PartMap> map_;
  std::uint64_t next_ = 0;
};

}  // namespace cairn::store
