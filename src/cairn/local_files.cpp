#include "cairn/local_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "cairn/output.h"
#include "format/manifest.h"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

// A directory by its identity, to notice a link that leads back up.
using Identity = std::pair<dev_t, ino_t>;

Identity identity_of(const std::string& path) noexcept {
  struct stat is{};
  if (stat(path.c_str(), &is) != 0) return {0, 0};
  return {is.st_dev, is.st_ino};
}

void walk(Tree& tree, const std::string& full, const std::string& inside, bool follow,
          std::vector<Identity>& above) {
  std::error_code problem;
  std::vector<std::string> names;
  for (fs::directory_iterator at(full, problem), end; !problem && at != end; at.increment(problem))
    names.push_back(at->path().filename().string());
  if (problem) {
    tree.skipped.push_back(fmt::format("{}: {}", full, problem.message()));
    return;
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const std::string path = inside.empty() ? name : inside + "/" + name;
    const std::string at = full + "/" + name;
    const FileFacts facts = look_at(at, follow);
    if (!format::is_manifest_path(path)) {
      tree.skipped.push_back(fmt::format("{}: the name is not UTF-8, or too long", at));
    } else if (facts.kind == FileKind::file) {
      tree.files.push_back({path, at, facts});
    } else if (facts.kind == FileKind::directory) {
      const Identity identity = identity_of(at);
      if (std::ranges::find(above, identity) != above.end()) {
        tree.skipped.push_back(fmt::format("{}: the link leads back to a directory above it", at));
        continue;
      }
      above.push_back(identity);
      walk(tree, at, path, follow, above);
      above.pop_back();
    } else if (facts.kind == FileKind::link) {
      tree.skipped.push_back(fmt::format("{}: a symbolic link (--follow sends what it leads to)", at));
    } else {
      tree.skipped.push_back(
          fmt::format("{}: {}", at, facts.kind == FileKind::absent ? "leads nowhere" : "not a file"));
    }
  }
}

constexpr int links_max = 40;

// `/proc/PID/fd/N` of this process: it leads to no path, but to the descriptor N itself.
std::optional<int> find_own_descriptor(const std::string& path) {
  std::error_code problem;
  const fs::path whole = fs::absolute(path, problem);
  const fs::path directory = fs::canonical(whole.parent_path(), problem);
  const std::string name = whole.filename().string();
  int number = -1;
  const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (problem || wrong != std::errc() || end != name.data() + name.size()) return std::nullopt;
  if (directory != fs::path(fmt::format("/proc/{}/fd", getpid()))) return std::nullopt;
  return number;
}

int open_now(const Target& target) noexcept {
  if (target.descriptor >= 0) return fcntl(target.descriptor, F_DUPFD_CLOEXEC, 3);
  return open(target.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
}

bool write_all(int descriptor, ByteView left) noexcept {
  while (!left.empty()) {
    const ssize_t put = ::write(descriptor, left.data(), left.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    left = left.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

FileFacts look_at(const std::string& path, bool follow) noexcept {
  struct stat is{};
  if ((follow ? stat(path.c_str(), &is) : lstat(path.c_str(), &is)) != 0) return {};
  FileFacts facts{.kind = FileKind::other,
                  .size = static_cast<std::uint64_t>(is.st_size),
                  .modified_ns = is.st_mtim.tv_sec * 1'000'000'000 + is.st_mtim.tv_nsec};
  if (S_ISREG(is.st_mode)) facts.kind = FileKind::file;
  if (S_ISDIR(is.st_mode)) facts.kind = FileKind::directory;
  if (S_ISLNK(is.st_mode)) facts.kind = FileKind::link;
  return facts;
}

Tree walk_tree(const std::string& directory, bool follow) {
  Tree tree;
  std::vector<Identity> above{identity_of(directory)};
  walk(tree, directory, "", follow, above);
  std::ranges::sort(tree.files, {}, &TreeFile::path);
  return tree;
}

client::Outcome<> make_parents(const std::string& root, const std::string& path) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string at = root + "/" + path.substr(0, slash);
    const FileFacts facts = look_at(at, false);
    if (facts.kind == FileKind::directory) continue;
    if (facts.kind == FileKind::absent && mkdir(at.c_str(), 0777) == 0) continue;
    // The download of another file may have made the directory meanwhile.
    if (facts.kind == FileKind::absent && look_at(at, false).kind == FileKind::directory) continue;
    return fail(client::Failure(ErrorCode::conflict,
                                facts.kind == FileKind::absent
                                    ? fmt::format("{} cannot be made", at)
                                    : fmt::format("{} is in the way: it is not a directory of its own", at)));
  }
  return {};
}

void take_mode(const std::string& path, const std::string& target) noexcept {
  struct stat is{};
  if (lstat(target.c_str(), &is) == 0 && S_ISREG(is.st_mode)) {
    (void)chmod(path.c_str(), is.st_mode & 0777);
    return;
  }
  const mode_t mask = umask(0);
  umask(mask);
  (void)chmod(path.c_str(), 0666 & ~mask);
}

client::Outcome<Target> find_target(const std::string& path) {
  Target target{.path = path};
  for (int links = 0; look_at(target.path, false).kind == FileKind::link; ++links) {
    if (const auto own = find_own_descriptor(target.path)) {
      target.descriptor = *own;
      target.in_place = true;
      return target;
    }
    std::error_code problem;
    const fs::path next = fs::read_symlink(target.path, problem);
    if (problem || links == links_max)
      return fail(client::Failure(ErrorCode::conflict, fmt::format("{} leads nowhere", path)));
    target.path = (fs::path(target.path).parent_path() / next).string();
  }
  const FileKind kind = look_at(target.path, false).kind;
  if (kind == FileKind::directory)
    return fail(client::Failure(ErrorCode::conflict, fmt::format("{} is a directory", path)));
  target.in_place = kind == FileKind::other;
  return target;
}

client::Outcome<> write_whole(const std::string& path, std::string_view bytes) {
  const auto broken = [&path](std::string_view what) {
    return fail(
        client::Failure(ErrorCode::io_failed, fmt::format("{} {}: {}", path, what, std::strerror(errno))));
  };
  TRY(const Target target, find_target(path));
  if (path == "-" || target.descriptor == 1) {
    (void)write_result(bytes);  // a failure is the program's exit code
    return {};
  }
  if (target.in_place) {
    const int to = open_now(target);
    if (to < 0) return broken("cannot be opened");
    const bool written = write_all(to, as_bytes(bytes));
    return close(to) == 0 && written ? client::Outcome<>{} : broken("cannot be written");
  }
  std::string aside = target.path + ".XXXXXX";
  const int to = mkostemp(aside.data(), O_CLOEXEC);
  if (to < 0) return broken("cannot be written");
  take_mode(aside, target.path);
  bool written = write_all(to, as_bytes(bytes)) && fsync(to) == 0;
  written = close(to) == 0 && written;
  if (written && rename(aside.c_str(), target.path.c_str()) == 0) return {};
  auto failed = broken("cannot be written");
  unlink(aside.c_str());
  return failed;
}

std::string absolute_path(const std::string& path) {
  std::error_code problem;
  const fs::path whole = fs::absolute(path, problem);
  return problem ? path : whole.lexically_normal().string();
}

std::string upload_ledger_directory() {
  std::string base;
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/')
    base = state;
  else if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    base = std::string(home) + "/.local/state";
  else
    return {};
  const std::string directory = base + "/cairn/uploads";
  std::error_code problem;
  fs::create_directories(directory, problem);
  if (problem) return {};
  fs::permissions(base + "/cairn", fs::perms::owner_all, problem);
  return directory;
}

Task<Result<HeapBytes>> StdinSource::next(Call call, std::size_t most) {
  return run(pool_, call, Lane::read, [most]() -> Result<HeapBytes> {
    HeapBytes bytes(most);
    while (!bytes.room().empty()) {
      const ssize_t got = ::read(0, bytes.room().data(), bytes.room().size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail(ErrorCode::io_failed, "stdin cannot be read");
      if (got == 0) break;
      bytes.fill(static_cast<std::size_t>(got));
    }
    return bytes;
  });
}

Task<Result<>> DescriptorDestination::write(Call call, std::uint64_t, HeapBytes bytes) {
  return run(pool_, call, Lane::commit, [held = std::move(bytes), to = descriptor_]() -> Result<> {
    if (to == 1) return write_result_bytes(held.bytes());
    if (write_all(to, held.bytes())) return {};
    if (errno == EPIPE) return fail(ErrorCode::closed, "nobody reads any more");
    return fail(ErrorCode::io_failed, "cannot be written");
  });
}

Task<client::Outcome<int>> open_in_place(Call call, Pool* pool, Target target) {
  CO_TRY(const int descriptor,
         co_await run(*pool, call, Lane::commit, [target = std::move(target)]() -> Result<int> {
           const int opened = open_now(target);
           if (opened < 0) return fail(ErrorCode::io_failed, "cannot be opened for writing");
           return opened;
         }));
  co_return descriptor;
}

}  // namespace cairn::cli
