// ReadBlock and ReadBlocks: a shard's memory for large reads, used again and again. Aligned for
// File::read_direct, and made of huge pages where the system has them: a read past the page cache pins each
// page for the device, and pinning one huge page costs as much as one small page.
//
//   [RB-1] At most `most` blocks exist; when all are out, try_take gives none and never waits.
//   [RB-2] A block is given back when its last owner is dropped. Its memory stays until then, even when the
//         ReadBlocks are destroyed first.
// The count is not atomic: a block may be filled by a pool thread, but is shared and dropped only on its
// shard.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/bytes.h"

namespace cairn::io {

class ReadBlock {
 public:
  ReadBlock() = default;
  ReadBlock(ReadBlock&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  ReadBlock& operator=(ReadBlock&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~ReadBlock() {
    if (block_ != nullptr) release(block_);
  }

  explicit operator bool() const noexcept { return block_ != nullptr; }
  MutableByteView bytes() const noexcept;
  ReadBlock share() const noexcept;
  // Ownership as a pointer, for release() to take back.
  void* detach() && noexcept { return std::exchange(block_, nullptr); }
  static void release(void* detached) noexcept;

 private:
  friend class ReadBlocks;
  struct Block;
  explicit ReadBlock(Block* block) noexcept : block_(block) {}
  Block* block_ = nullptr;
};

class ReadBlocks {
 public:
  ReadBlocks(std::size_t block_bytes, std::size_t most);
  ~ReadBlocks();
  ReadBlocks(const ReadBlocks&) = delete;
  ReadBlocks& operator=(const ReadBlocks&) = delete;

  // The block given back last, which is likeliest to be in the processor's cache. Empty when all are out, or
  // there is no memory.
  ReadBlock try_take() noexcept;
  std::size_t outstanding() const noexcept;

 private:
  friend class ReadBlock;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cairn::io
