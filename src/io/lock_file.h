// LockFile: one process at a time, said by the kernel: an flock that ends with its holder however that ends.
//
// The file holds `PID START-TIME` of its holder, so that whoever is refused can be told by whom; below that,
// a line `listens ADDRESS` for each address that the holder announced. It is never removed: a file that is
// gone could be locked by two.
//   [LF-1] What the file says counts only while the lock is held.
//   [LF-2] Announced addresses are believed only while their announcer lives. Beside the flock, the announcer
//          holds a write lock on the file (an open file description's), taken after its own text was written.
//          A reader asks the kernel for that lock and never takes one: a look at the file cannot be in the
//          way of a process that starts.
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

  // DIRECTORY/NAME for this process. The error is text for people: it names the directory and, when another
  // process has it, that one's id and when it started.
  static std::expected<LockFile, std::string> take(const std::string& directory, const std::string& name,
                                                   WallTime now);
  // Waits for whoever has it: for locks that are held for moments. Blocks: not on a shard.
  static Result<LockFile> wait_for(const std::string& path);

  // Says where its holder can be reached; replaces what was announced before. An address that holds a line's
  // end is left out; without any, nothing is announced any more, and the disk is not touched. Precondition:
  // made by take().
  Result<> announce(std::span<const std::string> addresses);
  // What the present holder of the lock announced. Empty: it announced nothing, or nobody holds it. Blocks.
  static std::vector<std::string> read_announced(const std::string& path);

  explicit operator bool() const noexcept { return descriptor_ >= 0; }

 private:
  explicit LockFile(int descriptor) noexcept : descriptor_(descriptor) {}
  int descriptor_ = -1;
  std::string holder_;  // the file's first line
};

}  // namespace cairn::io
