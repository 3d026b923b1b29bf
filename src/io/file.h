// File and Disk: what services may do with a file system, real or simulated.
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
  Buffer buffer;  // filled by what was read; short only at the end of the file
};

// Memory that a read fills, and what keeps it: an operation whose waiter left still writes there.
struct Region {
  MutableByteView bytes;
  std::shared_ptr<void> owner;
};
// Whether a write returns before or after its bytes are durable.
enum class Sync : std::uint8_t { no, data };

class File {
 public:
  virtual ~File() = default;

  // From the page cache only, never blocks: would-have-blocked is `busy`. Fills `into`'s room up to `count`.
  virtual Result<std::size_t> try_read(std::uint64_t offset, std::size_t count, Buffer& into) noexcept = 0;
  // Up to `count` bytes into `into`'s room. Cancel: partial — the operation ends by itself.
  virtual Task<Result<Buffer>> read(Call call, std::uint64_t offset, std::size_t count, Buffer into) = 0;
  // All of `from`, at `offset`. Cancel: partial — any part may have been written.
  virtual Task<Result<Buffer>> write(Call call, std::uint64_t offset, Buffer from) = 0;
  // The same into and from memory of the caller's choice.
  virtual Result<std::size_t> try_read_into(std::uint64_t offset, MutableByteView into) noexcept = 0;
  // Short only at the end of the file. Cancel: partial — the operation ends by itself.
  virtual Task<Result<std::size_t>> read_into(Call call, std::uint64_t offset, Region into) = 0;
  // For much that is read once: as read_into, but past the page cache where the file was opened for that and
  // its file system can, so without its copies. The byte at `offset` lands at `offset % direct_alignment` of
  // `into`, which begins at such an address and has room for the whole sectors around the range; bytes beside
  // it may be anything. Short only at the end of the file. Cancel: partial — the operation ends by itself.
  virtual Task<Result<std::size_t>> read_direct(Call call, std::uint64_t offset, std::size_t count,
                                                Region into) {
    const std::size_t at = offset % direct_alignment;
    return read_into(call, offset, {into.bytes.subspan(at, count), std::move(into.owner)});
  }
  static constexpr std::size_t direct_alignment = 4096;
  // Whether all of the range is in the page cache. Asking brings nothing there. True when nobody knows:
  // try_read_into finds out.
  virtual bool is_resident(std::uint64_t, std::size_t) noexcept { return true; }
  // All blocks, one after the other; with Sync::data as if followed by sync_data, in one step.
  // Cancel: partial — any part may have been written.
  virtual Task<Result<>> write_blocks(Call call, std::uint64_t offset, std::vector<HeapBytes> blocks,
                                      Sync sync) = 0;
  virtual Task<Result<>> sync_data(Call call) = 0;
  virtual Task<Result<>> truncate(Call call, std::uint64_t size) = 0;
  // The file is `size` bytes long, and nobody else gets the room for them. False: this file system does not
  // know how; the caller writes them. Cancel: partial — any part of it may be taken.
  virtual Task<Result<bool>> allocate(Call call, std::uint64_t size) {
    CO_TRY_VOID(co_await truncate(call, size));
    co_return true;
  }
  virtual Result<std::uint64_t> size() const noexcept = 0;
  // Whether any name leads to it still: what is written to a file without one is gone with the process. True
  // when nobody knows.
  virtual bool is_named() const noexcept { return true; }
  // Whether sending this range is unlikely to wait for the disk, and making it so. The simulated disk is
  // always warm: its waits are in read().
  virtual bool is_warm(std::uint64_t, std::size_t) noexcept { return true; }
  virtual Task<Result<>> warm(Call, std::uint64_t, std::size_t) { co_return Result<>{}; }
  // Descriptor for sendfile between the real twins; -1 in simulation, where the stream copies instead.
  virtual int descriptor() const noexcept = 0;
};

// read_direct: as read, for a file of which read_direct() will be asked.
enum class OpenMode { read, read_direct, write, create_new };

// What a file system has left for those who are not its administrator.
struct FreeSpace {
  std::uint64_t bytes = 0;
  std::uint64_t files = UINT64_MAX;  // the most there is, where they are not counted
};

// By which lanes of the pool: what requests read has one of its own, and so has what changes files.
class Disk {
 public:
  virtual ~Disk() = default;
  // The same disk, all by one lane: that of committers' steps, or that of tasks that tend what is stored.
  // Files keep to the lanes of the disk that opened them. They live as long as this one.
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
  // Of the whole file system, whoever uses it. Cancel: clean.
  virtual Task<Result<std::uint64_t>> total_space(Call call, std::string path) = 0;
};

}  // namespace cairn::io
