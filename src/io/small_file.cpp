#include "io/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"

namespace cairn::io {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const noexcept { return number_; }
  bool ok() const noexcept { return number_ >= 0; }

 private:
  int number_;
};

bool write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

Result<> sync_parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const Descriptor directory(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.ok() || fsync(directory.number()) != 0)
    return fail(ErrorCode::io_failed, "the directory cannot be made durable");
  return {};
}

}  // namespace

Result<std::string> read_small_file(const std::string& path, std::size_t most) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return fail(ErrorCode::not_found, "cannot be read");
  std::setvbuf(file, nullptr, _IONBF, 0);  // a secret must leave no copy in a buffer
  std::string text(most + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  const bool broken = std::ferror(file) != 0;
  std::fclose(file);
  if (broken) return fail(ErrorCode::io_failed, "cannot be read");
  if (text.size() > most) return fail(ErrorCode::invalid, "is too large");
  return text;
}

namespace {

// What was read is in `text` even if it is not all.
Result<> read_opened(const Descriptor& file, std::size_t most, std::string& text) {
  text.assign(most + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(file.number(), text.data() + size, text.size() - size);
    if (count < 0) return fail(ErrorCode::io_failed, "cannot be read");
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  if (text.size() > most) return fail(ErrorCode::invalid, "is too large");
  return {};
}

Result<> read_if(const std::string& path, std::size_t most, mode_t refused, std::string& text) {
  // O_NONBLOCK: opening a pipe without a writer would block.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.ok()) return fail(ErrorCode::not_found, "cannot be read");
  struct stat about{};
  if (fstat(file.number(), &about) != 0) return fail(ErrorCode::io_failed, "cannot be read");
  if (!S_ISREG(about.st_mode)) return fail(ErrorCode::invalid, "is not a regular file");
  if ((about.st_mode & refused) != 0) return fail(ErrorCode::forbidden, "can be read or changed by others");
  return read_opened(file, most, text);
}

}  // namespace

Result<std::string> read_regular_file(const std::string& path, std::size_t most) {
  std::string text;
  TRY_VOID(read_if(path, most, 0, text));
  return text;
}

Result<crypto::SecretText> read_private_file(const std::string& path, std::size_t most) {
  std::string text;
  const Result<> read = read_if(path, most, S_IRWXG | S_IRWXO, text);
  crypto::SecretText secret(std::move(text));
  if (!read) return fail(read.error());
  return secret;
}

Result<FileMark> mark_file(const std::string& path) {
  struct stat about{};
  if (stat(path.c_str(), &about) != 0) return fail(ErrorCode::not_found, "the file is not there");
  return FileMark{about.st_dev, about.st_ino, static_cast<std::uint64_t>(about.st_size),
                  about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec};
}

Result<> replace_file(const std::string& path, std::string_view text) {
  const std::string aside = path + ".new";
  const Descriptor file(open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.ok()) return fail(ErrorCode::io_failed, "cannot be written aside");
  if (!write_all(file.number(), text) || fsync(file.number()) != 0) {
    unlink(aside.c_str());
    return fail(ErrorCode::io_failed, "cannot be written aside");
  }
  if (rename(aside.c_str(), path.c_str()) != 0) {
    unlink(aside.c_str());
    return fail(ErrorCode::io_failed, "cannot be put in its place");
  }
  return sync_parent(path);
}

}  // namespace cairn::io
