#include "io/lock_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace cairn::io {
namespace {

int open_lock(const std::string& path) noexcept {
  return open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

// `PID START-TIME` of the holder, as far as it can be read: it may be about to write it.
std::string describe_holder(int descriptor) {
  std::array<char, 64> room;
  const ssize_t size = pread(descriptor, room.data(), room.size(), 0);
  std::string_view text(room.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  text = text.substr(0, text.find('\n'));
  const std::size_t blank = text.find(' ');
  if (blank == text.npos) return "another process";
  return fmt::format("process {}, started {}", text.substr(0, blank), text.substr(blank + 1));
}

}  // namespace

LockFile::~LockFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::expected<LockFile, std::string> LockFile::take(const std::string& directory, const std::string& name,
                                                    WallTime now) {
  const std::string path = directory + "/" + name;
  LockFile lock(open_lock(path));
  if (!lock) return std::unexpected(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  if (flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      return std::unexpected(fmt::format("{}: cannot be locked: {}", path, std::strerror(errno)));
    return std::unexpected(fmt::format("{} is in use by {}", directory, describe_holder(lock.descriptor_)));
  }
  const std::string text = fmt::format("{} {}\n", getpid(), format_rfc3339(now));
  if (ftruncate(lock.descriptor_, 0) != 0 ||
      pwrite(lock.descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return std::unexpected(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  return lock;
}

Result<LockFile> LockFile::wait_for(const std::string& path) {
  LockFile lock(open_lock(path));
  if (!lock) return fail(ErrorCode::io_failed, "the lock cannot be opened");
  while (flock(lock.descriptor_, LOCK_EX) != 0)
    if (errno != EINTR) return fail(ErrorCode::io_failed, "the lock cannot be had");
  return lock;
}

}  // namespace cairn::io
