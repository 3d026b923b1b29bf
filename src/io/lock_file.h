// LockFile: one process at a time, said by the kernel: an flock that ends with its holder however that ends.
//
// The file holds `PID START-TIME` of its holder, so that whoever is refused can be told by whom. What it says
// counts only while the lock is held. It is never removed: a file that is gone could be locked by two.
#pragma once

#include <expected>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/units.h"

namespace cairn::io {

class LockFile {
 public:
  LockFile() = default;
  LockFile(LockFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  LockFile& operator=(LockFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~LockFile();

  // DIRECTORY/NAME for this process. The error is text for people: it names the directory and, when another
  // process has it, that one's id and when it started.
  static std::expected<LockFile, std::string> take(const std::string& directory, const std::string& name,
                                                   WallTime now);
  // Waits for whoever has it: for locks that are held for moments. Blocks: not on a shard.
  static Result<LockFile> wait_for(const std::string& path);

  explicit operator bool() const noexcept { return descriptor_ >= 0; }

 private:
  explicit LockFile(int descriptor) noexcept : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace cairn::io
