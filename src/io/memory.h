// Arena and Memory: memory that is also a file, so that its bytes can be sent without a copy. Real (a memfd)
// or simulated (plain memory, copied by the simulated stream).
//
// sendfile does not copy. Until the peer has acknowledged a sent page, the socket still refers to it, and the
// peer would read later writes to it. Memory that may be on its way is therefore punched out before it is
// written again: the socket keeps the old page, the arena gets a new one.
//
// Pages are small, or a block of them is one large page: the kernel then sends, fills and punches the block
// in far fewer steps.
//
//   [MM-1] A large page is punched as a whole or not at all: punching a part of it would write zeros into the
//         page in place, and a socket may still refer to that page.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "io/file.h"

namespace cairn::io {

class Arena {
 public:
  virtual ~Arena() = default;

  virtual std::byte* data() noexcept = 0;
  virtual std::size_t size() const noexcept = 0;
  // The same bytes, to read and to send only.
  virtual File& file() noexcept = 0;
  // The range reads as zeros and holds no memory until it is written again; bytes already handed to a socket
  // stay as they were. Whole pages only, and whole large pages (MM-1). From any thread.
  virtual void punch(std::size_t offset, std::size_t count) noexcept = 0;
  // Backs the block at `offset`, a multiple of `block`, by one large page of zeros; false when the kernel has
  // no such page or no support: the block then still holds no memory. A punched block has small pages again.
  // Precondition: the block is unused and holds no memory. Blocks for milliseconds; from any thread that may
  // block.
  virtual bool make_huge(std::size_t offset) noexcept = 0;

  static constexpr std::size_t page = 4096;
  static constexpr std::size_t block = std::size_t{2} << 20;
};

// Which blocks of an arena are large pages, for both twins. From any thread; only a block's present user
// changes that block's entry.
class HugeBlocks {
 public:
  explicit HugeBlocks(std::size_t bytes) : huge_(bytes / Arena::block) {}

  bool has(std::size_t offset) const noexcept {
    return offset / Arena::block < huge_.size() &&
           huge_[offset / Arena::block].load(std::memory_order_relaxed);
  }
  // CHECKs that it is a whole block of small pages.
  void add(std::size_t offset) noexcept;
  // The range is about to be punched: CHECKs [MM-1].
  void remove(std::size_t offset, std::size_t count) noexcept;

 private:
  std::vector<std::atomic<bool>> huge_;
};

class Memory {
 public:
  virtual ~Memory() = default;
  // `bytes` is rounded up to whole pages. Only what is written is backed by memory.
  virtual Result<std::unique_ptr<Arena>> make_arena(std::size_t bytes) = 0;
};

// The file of an arena: reads copy from its memory, never wait and stop at its end. From any shard.
class ArenaFile final : public File {
 public:
  ArenaFile(ByteView bytes, int descriptor) noexcept : bytes_(bytes), descriptor_(descriptor) {}

  Result<std::size_t> try_read(std::uint64_t offset, std::size_t count, Buffer& into) noexcept override;
  Task<Result<Buffer>> read(Call call, std::uint64_t offset, std::size_t count, Buffer into) override;
  Result<std::size_t> try_read_into(std::uint64_t offset, MutableByteView into) noexcept override;
  Task<Result<std::size_t>> read_into(Call call, std::uint64_t offset, Region into) override;
  // Refused: an arena is written through its memory.
  Task<Result<Buffer>> write(Call call, std::uint64_t offset, Buffer from) override;
  Task<Result<>> write_blocks(Call call, std::uint64_t offset, std::vector<HeapBytes> blocks,
                              Sync sync) override;
  Task<Result<>> sync_data(Call call) override;
  Task<Result<>> truncate(Call call, std::uint64_t size) override;
  Result<std::uint64_t> size() const noexcept override { return bytes_.size(); }
  ByteView in_memory(std::uint64_t offset, std::size_t count) const noexcept override {
    if (offset > bytes_.size() || count > bytes_.size() - offset) return {};
    return bytes_.subspan(offset, count);
  }
  int descriptor() const noexcept override { return descriptor_; }

 private:
  ByteView bytes_;
  int descriptor_;
};

// A memfd of a fixed size, mapped once at an address that is aligned for large pages.
class MemoryArena final : public Arena {
 public:
  static Result<std::unique_ptr<Arena>> make(std::size_t bytes);
  ~MemoryArena() override;
  MemoryArena(const MemoryArena&) = delete;
  MemoryArena& operator=(const MemoryArena&) = delete;

  std::byte* data() noexcept override { return data_; }
  std::size_t size() const noexcept override { return size_; }
  File& file() noexcept override { return file_; }
  void punch(std::size_t offset, std::size_t count) noexcept override;
  bool make_huge(std::size_t offset) noexcept override;

 private:
  MemoryArena(std::byte* data, std::size_t size, int descriptor)
      : data_(data), size_(size), file_({data, size}, descriptor), huge_(size) {}

  std::byte* data_;
  std::size_t size_;
  ArenaFile file_;
  HugeBlocks huge_;
};

class KernelMemory final : public Memory {
 public:
  Result<std::unique_ptr<Arena>> make_arena(std::size_t bytes) override { return MemoryArena::make(bytes); }
};

}  // namespace cairn::io
