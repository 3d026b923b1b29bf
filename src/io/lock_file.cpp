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

// `PID START-TIME` of the holder, as far as it can be read: the holder may not have written it yet.
std::string describe_holder(int descriptor) {
  std::array<char, 64> room;
  const ssize_t size = pread(descriptor, room.data(), room.size(), 0);
  std::string_view text(room.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  text = text.substr(0, text.find('\n'));
  const std::size_t blank = text.find(' ');
  if (blank == text.npos) return "another process";
  return fmt::format("process {}, started {}", text.substr(0, blank), text.substr(blank + 1));
}

constexpr std::string_view listens = "listens ";
constexpr std::size_t text_max = 16 << 10;

// The announcer's lock: see LF-2.
struct flock whole_file(short kind) noexcept {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool is_announced(int descriptor) noexcept {
  struct flock asked = whole_file(F_RDLCK);
  return fcntl(descriptor, F_OFD_GETLK, &asked) == 0 && asked.l_type == F_WRLCK;
}

std::string read_text(int descriptor) {
  std::string text(text_max, '\0');
  const ssize_t size = pread(descriptor, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

bool write_text(int descriptor, std::string_view text) noexcept {
  return pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
         ftruncate(descriptor, static_cast<off_t>(text.size())) == 0;
}

std::vector<std::string> parse_announced(std::string_view text) {
  std::vector<std::string> addresses;
  for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    if (text.starts_with(listens)) addresses.emplace_back(text.substr(listens.size(), end - listens.size()));
  return addresses;
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
  lock.holder_ = fmt::format("{} {}\n", getpid(), format_rfc3339(now));
  if (ftruncate(lock.descriptor_, 0) != 0 || !write_text(lock.descriptor_, lock.holder_))
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

Result<> LockFile::announce(std::span<const std::string> addresses) {
  if (addresses.empty()) {
    // Writes nothing: a process that ends must not wait for the disk.
    struct flock mine = whole_file(F_UNLCK);
    if (fcntl(descriptor_, F_OFD_SETLK, &mine) == 0) return {};
    return fail(ErrorCode::io_failed, "the lock file cannot be unlocked for readers");
  }
  std::string text = holder_;
  for (const std::string& one : addresses)
    if (one.find('\n') == one.npos) text.append(listens).append(one).append("\n");
  if (text.size() > text_max || !write_text(descriptor_, text))
    return fail(ErrorCode::io_failed, "the lock file cannot be written");
  struct flock mine = whole_file(F_WRLCK);
  if (fcntl(descriptor_, F_OFD_SETLK, &mine) != 0)
    return fail(ErrorCode::io_failed, "the lock file cannot be locked for readers");
  return {};
}

std::vector<std::string> LockFile::read_announced(const std::string& path) {
  const LockFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return {};
  // The text is the same before and after the holder was seen, so it belongs to that holder: the next holder
  // clears the text before it announces. A text that is just being written is read again.
  for (int tries = 0; tries < 3; ++tries) {
    const std::string before = read_text(file.descriptor_);
    const bool held = is_announced(file.descriptor_);
    if (before == read_text(file.descriptor_))
      return held ? parse_announced(before) : std::vector<std::string>{};
  }
  return {};
}

}  // namespace cairn::io
