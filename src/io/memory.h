// Arena and Memory: a block of memory that is also a file, so that what is kept there can be sent without a
// copy. Real (a memfd) or simulated (plain memory, copied by the simulated stream).
//
// sendfile does not copy: until the peer has acknowledged it, a page that was sent is also in the socket, and
// what is written to it by then is what the peer reads. Memory that may be on its way is therefore punched
// out before it is written again: the socket keeps the old page, the arena gets a new one.
#pragma once

#include <cstddef>
#include <memory>

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
  // stay as they were. Whole pages only: the rest of a page would be changed where it is. From any thread.
  virtual void punch(std::size_t offset, std::size_t count) noexcept = 0;

  static constexpr std::size_t page = 4096;
};

class Memory {
 public:
  virtual ~Memory() = default;
  // `bytes` is rounded up to whole pages. Only what is written is backed by memory.
  virtual Result<std::unique_ptr<Arena>> make_arena(std::size_t bytes) = 0;
};

// The file of an arena: reads copy from its memory, are never waited for and stop at its end. From any shard.
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
  int descriptor() const noexcept override { return descriptor_; }

 private:
  ByteView bytes_;
  int descriptor_;
};

// A memfd of a fixed size, mapped once.
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

 private:
  MemoryArena(std::byte* data, std::size_t size, int descriptor) noexcept
      : data_(data), size_(size), file_({data, size}, descriptor) {}

  std::byte* data_;
  std::size_t size_;
  ArenaFile file_;
};

class KernelMemory final : public Memory {
 public:
  Result<std::unique_ptr<Arena>> make_arena(std::size_t bytes) override { return MemoryArena::make(bytes); }
};

}  // namespace cairn::io
