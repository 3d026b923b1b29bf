// ReadAhead: consecutive groups of one part that came with one read, verified when they are taken: just
// before they are sent, so that the bytes are near when the socket copies them, and a few at a time, so that
// no step of a shard is long.
//
//   [RA-1] What take() gives was checked against the part's hashes, in the memory that it gives.
//   [RA-2] What does not match is given up, and everything behind it: whoever needs it reads it again, from
//         where it is said what is wrong with it.
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

// One verified group: in the cache, or in a buffer of this shard. Or some of them, side by side in a block.
struct GroupBytes {
  GroupCache::Ref ref;
  Buffer buffer;
  io::ReadBlock block;
  ByteView in_block;
  ByteView bytes() const noexcept { return ref ? ref.bytes() : block ? in_block : buffer.bytes(); }
};

class ReadAhead {
 public:
  // Verified and given out at once, at most. 512 KiB: some 80 us, and still in a core's own cache when it is
  // sent. Smaller ones wake the receiver more often, larger ones fall out of that cache.
  static constexpr std::uint64_t step_groups = 8;

  ReadAhead() = default;
  // `bytes` of the block are the groups from `first` on; only the last of them may be short. None is a whole
  // object.
  ReadAhead(io::ReadBlock block, ByteView bytes, std::shared_ptr<const PartMap> map,
            std::uint64_t first) noexcept;

  // Groups from `group` on, below `end`, if they are here and right; those are not here any more.
  std::optional<GroupBytes> take(std::uint64_t group, std::uint64_t end) noexcept;
  bool empty() const noexcept { return !block_; }

 private:
  io::ReadBlock block_;
  ByteView bytes_;  // not taken yet
  std::shared_ptr<const PartMap> map_;
  std::uint64_t next_ = 0;
};

}  // namespace cairn::store
