// File and Disk: the file operations of services, real or simulated.
//
// Operations own their buffer: moved in, moved out. When a deadline ends the wait, the operation keeps the
// buffer until it completes on its own (counted in io_orphaned); the caller must not assume that the write
// did or did not happen, unless the error is `undone`: then it never began. An error of sync_data or
// sync_directory is final: the data may be gone, and asking again would lie.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/heap_bytes.h"
#include "base/result.h"
#include "runtime/buffer.h"
#include "runtime/task.h"

namespace cairn::io {

struct ReadDone {
  Buffer buffer;  // holds the bytes read; short only at the end of the file
};

// Memory that a read fills, and its owner. The owner keeps the memory alive, because an operation whose
// waiter left still writes there.
struct Region {
  MutableByteView bytes;
  std::shared_ptr<void> owner;
};
// Whether a write returns before or after its bytes are durable.
enum class Sync : std::uint8_t { no, data };

class File {
 public:
  virtual ~File() = default;

  // Reads from the page cache only and never blocks; `busy` when it would have to. Fills `into`'s room up to
  // `count`.
  virtual Result<std::size_t> try_read(std::uint64_t offset, std::size_t count, Buffer& into) noexcept = 0;
  // Up to `count` bytes into `into`'s room. Cancel: partial — the operation ends by itself.
  virtual Task<Result<Buffer>> read(Call call, std::uint64_t offset, std::size_t count, Buffer into) = 0;
  // All of `from`, at `offset`. Cancel: partial — any part may have been written.
  virtual Task<Result<Buffer>> write(Call call, std::uint64_t offset, Buffer from) = 0;
  // As try_read(), into memory of the caller's choice.
  virtual Result<std::size_t> try_read_into(std::uint64_t offset, MutableByteView into) noexcept = 0;
  // Short only at the end of the file. Cancel: partial — the operation ends by itself.
  virtual Task<Result<std::size_t>> read_into(Call call, std::uint64_t offset, Region into) = 0;
  // For large data that is read once. As read_into(), but it bypasses the page cache, and its copies, where
  // the file was opened with OpenMode::read_direct and its file system can. `into` begins at an aligned
  // address and has room for the whole sectors around the range. The byte at `offset` lands at `offset %
  // direct_alignment` of `into`; bytes outside the range may be anything. Short only at the end of the file.
  // Cancel: partial — the operation ends by itself.
  virtual Task<Result<std::size_t>> read_direct(Call call, std::uint64_t offset, std::size_t count,
                                                Region into) {
    const std::size_t at = offset % direct_alignment;
    return read_into(call, offset, {into.bytes.subspan(at, count), std::move(into.owner)});
  }
  static constexpr std::size_t direct_alignment = 4096;
  // Whether all of the range is in the page cache. The question loads nothing into it. True when the system
  // cannot tell: try_read_into() finds out.
  virtual bool is_resident(std::uint64_t, std::size_t) noexcept { return true; }
  // All blocks, one after the other; with Sync::data as if followed by sync_data, in one step.
  // Cancel: partial — any part may have been written.
  virtual Task<Result<>> write_blocks(Call call, std::uint64_t offset, std::vector<HeapBytes> blocks,
                                      Sync sync) = 0;
  virtual Task<Result<>> sync_data(Call call) = 0;
  virtual Task<Result<>> truncate(Call call, std::uint64_t size) = 0;
  // Makes the file `size` bytes long and reserves disk space for them. False: this file system cannot
  // reserve; the caller writes the bytes. Cancel: partial — any part of the space may be reserved.
  virtual Task<Result<bool>> allocate(Call call, std::uint64_t size) {
    CO_TRY_VOID(co_await truncate(call, size));
    co_return true;
  }
  virtual Result<std::uint64_t> size() const noexcept = 0;
  // Whether the file still has a name: data written to a file without one is gone with the process. True when
  // the system cannot tell.
  virtual bool is_named() const noexcept { return true; }
  // is_warm() says whether sending this range is unlikely to wait for the disk; warm() makes it so. The
  // simulated disk is always warm: its waits are in read().
  virtual bool is_warm(std::uint64_t, std::size_t) noexcept { return true; }
  virtual Task<Result<>> warm(Call, std::uint64_t, std::size_t) { co_return Result<>{}; }
  // For streams that cannot hand a file to the kernel: what sendfile() does, into memory. It may wait for the
  // disk, unless is_warm() has just said yes. Short only at the end of the file.
  virtual Result<std::size_t> copy_out(std::uint64_t offset, MutableByteView into) noexcept {
    return try_read_into(offset, into);
  }
  // The bytes themselves, for a file that is memory; else empty. They stay for as long as the file keeps
  // them.
  virtual ByteView in_memory(std::uint64_t, std::size_t) const noexcept { return {}; }
  // Descriptor for sendfile between the real twins; -1 in simulation, where the stream copies instead.
  virtual int descriptor() const noexcept = 0;
};

// read_direct: as read, for a file that will be read with read_direct().
enum class OpenMode { read, read_direct, write, create_new };

// The space that a file system has left for unprivileged users.
struct FreeSpace {
  std::uint64_t bytes = 0;
  std::uint64_t files = UINT64_MAX;  // the maximum, where the file system does not count files
};

// A file system, reached by lanes of the pool: the reads of requests have one lane, changes of files another.
class Disk {
 public:
  virtual ~Disk() = default;
  // The same disk with all operations by one lane: `commit` for committers' steps, `upkeep` for the tasks
  // that maintain a store. A file uses the lanes of the Disk that opened it. Both live as long as this one.
  virtual Disk& commits() noexcept { return *this; }
  virtual Disk& upkeep() noexcept { return *this; }
  virtual Task<Result<std::unique_ptr<File>>> open(Call call, std::string path, OpenMode mode) = 0;
  virtual Task<Result<>> rename(Call call, std::string from, std::string to) = 0;
  virtual Task<Result<>> unlink(Call call, std::string path) = 0;
  virtual Task<Result<>> make_directory(Call call, std::string path) = 0;
  // Names of a directory, sorted: the order of the file system is an accident.
  virtual Task<Result<std::vector<std::string>>> list(Call call, std::string path) = 0;
  virtual Task<Result<>> sync_directory(Call call, std::string path) = 0;
  virtual Task<Result<FreeSpace>> free_space(Call call, std::string path) = 0;
  // The size of the whole file system, used or not. Cancel: clean.
  virtual Task<Result<std::uint64_t>> total_space(Call call, std::string path) = 0;
};

}  // namespace cairn::io
