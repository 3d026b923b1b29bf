// LockFile: admits one process at a time by an flock, which the kernel releases however its holder ends.
//
// The file holds `PID START-TIME` of its holder, so that a refused process can name the holder. Below that is
// a line `listens ADDRESS` for each address that the holder announced. The file is never removed: two
// processes could then lock two different files of that name.
//   [LF-1] The file's text counts only while the lock is held.
//   [LF-2] Announced addresses are believed only while their announcer lives. Beside the flock, the announcer
//          holds a write lock on the file (an open file description's), taken after its own text was written.
//          A reader asks the kernel about that lock and never takes one, so a reader cannot block a process
//          that starts.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace cairn::io {

class LockFile {
 public:
  LockFile() = default;
  LockFile(LockFile&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), holder_(std::move(other.holder_)) {}
  LockFile& operator=(LockFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(holder_, other.holder_);
    return *this;
  }
  ~LockFile();

  // Locks DIRECTORY/NAME for this process. The error is text for people: it names the directory and, when
  // another process holds the lock, that process's id and start time.
  static std::expected<LockFile, std::string> take(const std::string& directory, const std::string& name,
                                                   WallTime now);
  // Waits until the present holder releases it: for locks that are held for moments. Blocks: not on a shard.
  static Result<LockFile> wait_for(const std::string& path);

  // Announces the addresses where the holder can be reached; replaces those announced before. An address that
  // contains a line end is left out. An empty list withdraws the announcement without touching the disk.
  // Precondition: made by take().
  Result<> announce(std::span<const std::string> addresses);
  // The addresses that the present holder announced. Empty: it announced none, or the lock is free. Blocks.
  static std::vector<std::string> read_announced(const std::string& path);

  explicit operator bool() const noexcept { return descriptor_ >= 0; }

 private:
  explicit LockFile(int descriptor) noexcept : descriptor_(descriptor) {}
  int descriptor_ = -1;
  std::string holder_;  // the file's first line
};

}  // namespace cairn::io
