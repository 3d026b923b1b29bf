// Buffer: an owned slice of a block from its shard's slab (4, 16 or 64 KiB).
//
// Move-only unless shared on purpose: share() counts another owner of the same block. The count is not
// atomic: a buffer may travel to a pool thread and back, but is shared and dropped only on its shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace cairn {

class Slab;

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        begin_(std::exchange(other.begin_, 0)),
        end_(std::exchange(other.end_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    return *this;
  }
  ~Buffer() { reset(); }

  explicit operator bool() const noexcept { return block_ != nullptr; }
  void reset() noexcept;
  Buffer share() const noexcept;

  // The filled part.
  ByteView bytes() const noexcept { return {data() + begin_, end_ - begin_}; }
  std::size_t size() const noexcept { return end_ - begin_; }
  bool empty() const noexcept { return begin_ == end_; }
  void consume(std::size_t count) noexcept {
    CHECK(count <= size());
    begin_ += static_cast<std::uint32_t>(count);
  }
  void truncate(std::size_t count) noexcept {
    CHECK(count <= size());
    end_ = begin_ + static_cast<std::uint32_t>(count);
  }
  // The room after the filled part, and claiming some of it. Only for a buffer with one owner.
  MutableByteView room() noexcept { return {data() + end_, capacity() - end_}; }
  void fill(std::size_t count) noexcept {
    CHECK(end_ + count <= capacity());
    end_ += static_cast<std::uint32_t>(count);
  }
  void clear() noexcept { begin_ = end_ = 0; }
  // Moves the filled part to the front, so that room() is as large as it can be.
  void compact() noexcept;
  std::size_t capacity() const noexcept;

 private:
  friend class Slab;
  struct Block;
  explicit Buffer(Block* block) noexcept : block_(block) {}
  std::byte* data() const noexcept;

  Block* block_ = nullptr;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
};

struct Buffer::Block {
  Slab* slab;
  Block* next_free;
  std::uint32_t owners;
  std::uint32_t bin;
};

// The shard's blocks. Freed blocks are kept up to a bound per size and given back to the system above it,
// so that a burst does not stay as resident memory.
class Slab {
 public:
  static constexpr std::size_t small = 4096;
  static constexpr std::size_t medium = 16384;
  static constexpr std::size_t large = 65536;

  Slab() = default;
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // A block of at least `size` (<= large) bytes of room.
  Buffer take(std::size_t size);
  std::size_t outstanding() const noexcept { return outstanding_; }
  std::size_t bytes_in_use() const noexcept { return bytes_; }

 private:
  friend class Buffer;
  static constexpr std::size_t header = 32;
  static constexpr std::array<std::size_t, 3> sizes{small, medium, large};
  static constexpr std::array<std::size_t, 3> kept{256, 64, 32};
  void give(Buffer::Block* block) noexcept;

  struct Bin {
    Buffer::Block* free = nullptr;
    std::size_t count = 0;
  };
  std::array<Bin, 3> bins_{};
  std::size_t outstanding_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace cairn
