#include "io/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

namespace cairn::io {
namespace {

Error error_of(int problem, const char* context) noexcept {
  switch (problem) {
    case ENOENT:
    case ENOTDIR:
      return {ErrorCode::not_found, context};
    case EEXIST:
      return {ErrorCode::conflict, context};
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return {ErrorCode::storage_full, context};
    default:
      return {ErrorCode::io_failed, context};
  }
}
std::unexpected<Error> failed(const char* context) noexcept { return fail(error_of(errno, context)); }

Result<Buffer> read_all(int descriptor, std::uint64_t offset, std::size_t count, Buffer into) {
  count = std::min(count, into.room().size());
  while (count > 0) {
    const ssize_t got = pread(descriptor, into.room().data(), count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read");
    if (got == 0) break;
    into.fill(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
  return into;
}

Result<Buffer> write_all(int descriptor, std::uint64_t offset, Buffer from) {
  ByteView left = from.bytes();
  while (!left.empty()) {
    const ssize_t put = pwrite(descriptor, left.data(), left.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed("write");
    if (put == 0) return fail(ErrorCode::io_failed, "write made no progress");
    offset += static_cast<std::uint64_t>(put);
    left = left.subspan(static_cast<std::size_t>(put));
  }
  return from;
}

Result<std::size_t> read_region(int descriptor, std::uint64_t offset, MutableByteView into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got =
        pread(descriptor, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

// Reads the whole sectors around the range past the page cache as far as possible, and the rest through it. A
// file whose direct descriptor is missing (-1) or refuses is read through the page cache.
Result<std::size_t> read_around(int direct, int buffered, std::uint64_t offset, std::size_t count,
                                MutableByteView into) {
  constexpr std::size_t sector = File::direct_alignment;
  const std::size_t skip = offset % sector, end = skip + count;
  const std::size_t whole = (end + sector - 1) / sector * sector;
  CHECK(whole <= into.size() && reinterpret_cast<std::uintptr_t>(into.data()) % sector == 0);
  const std::uint64_t base = offset - skip;
  std::size_t done = 0;
  while (direct >= 0 && done < end && done % sector == 0) {
    const ssize_t got = pread(direct, into.data() + done, whole - done, static_cast<off_t>(base + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EINVAL) return failed("read");
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  if (done >= end) return count;
  done = std::max(done, skip);
  TRY(const std::size_t rest, read_region(buffered, base + done, into.subspan(done, end - done)));
  return done + rest - skip;
}

// How many of the range's pages are cached. Linux 6.5 and later; nullopt where the kernel cannot tell.
std::optional<std::uint64_t> pages_in_cache(int descriptor, std::uint64_t offset,
                                            std::size_t count) noexcept {
  constexpr long cachestat_call = 451;  // the same number on every architecture; not in the headers yet
  struct Range {
    std::uint64_t offset, length;
  } range{offset, count};
  struct Pages {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } pages{};
  if (syscall(cachestat_call, descriptor, &range, &pages, 0U) != 0) return std::nullopt;
  return pages.cached;
}

// A second descriptor of the same file, past the page cache. -1 where the file system has none, or where the
// kernel cannot tell which pages are cached: a read to find out would begin to fill the cache.
int open_direct(int descriptor, const std::string& path) noexcept {
  if (!pages_in_cache(descriptor, 0, 1)) return -1;
  const int direct = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
  if (direct < 0) return -1;
  struct stat first{}, second{};
  if (fstat(descriptor, &first) == 0 && fstat(direct, &second) == 0 && first.st_dev == second.st_dev &&
      first.st_ino == second.st_ino)
    return direct;
  close_here(direct);  // the name leads to another file by now
  return -1;
}

Result<> write_vector(int descriptor, std::uint64_t offset, const std::vector<HeapBytes>& blocks) {
  constexpr std::size_t at_once = 64;
  std::size_t first = 0, skip = 0;  // the first block not wholly written, and how much of it is
  while (first < blocks.size()) {
    std::array<iovec, at_once> parts;
    std::size_t count = 0;
    for (std::size_t i = first; i < blocks.size() && count < at_once; ++i, ++count) {
      const ByteView bytes = blocks[i].bytes().subspan(i == first ? skip : 0);
      parts[count] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    }
    const ssize_t put =
        pwritev(descriptor, parts.data(), static_cast<int>(count), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed("write");
    offset += static_cast<std::uint64_t>(put);
    auto left = static_cast<std::size_t>(put);
    const std::size_t before = first;
    while (first < blocks.size() && left >= blocks[first].size() - skip) {
      left -= blocks[first].size() - skip;
      skip = 0;
      ++first;
    }
    skip += left;
    if (put == 0 && first == before) return fail(ErrorCode::io_failed, "write made no progress");
  }
  return {};
}

class KernelFile final : public File {
 public:
  KernelFile(Pool& pool, Lane reads, Lane changes, SharedDescriptor descriptor) noexcept
      : pool_(pool), reads_(reads), changes_(changes), descriptor_(std::move(descriptor)) {}

  Result<std::size_t> try_read(std::uint64_t offset, std::size_t count, Buffer& into) noexcept override {
    const MutableByteView room = into.room();
    const iovec part{room.data(), std::min(count, room.size())};
    const ssize_t got = preadv2(descriptor(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got >= 0) {
      into.fill(static_cast<std::size_t>(got));
      return static_cast<std::size_t>(got);
    }
    if (errno == EAGAIN || errno == EOPNOTSUPP) return fail(ErrorCode::busy, "not in memory");
    return failed("read");
  }
  Task<Result<Buffer>> read(Call call, std::uint64_t offset, std::size_t count, Buffer into) override {
    return run(pool_, call, reads_, [file = descriptor_, offset, count, buffer = std::move(into)]() mutable {
      return read_all(file->number(), offset, count, std::move(buffer));
    });
  }
  Task<Result<Buffer>> write(Call call, std::uint64_t offset, Buffer from) override {
    return run(pool_, call, changes_, [file = descriptor_, offset, buffer = std::move(from)]() mutable {
      return write_all(file->number(), offset, std::move(buffer));
    });
  }
  Result<std::size_t> try_read_into(std::uint64_t offset, MutableByteView into) noexcept override {
    const iovec part{into.data(), into.size()};
    const ssize_t got = preadv2(descriptor(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EAGAIN || errno == EOPNOTSUPP) return fail(ErrorCode::busy, "not in memory");
    return failed("read");
  }
  Task<Result<std::size_t>> read_into(Call call, std::uint64_t offset, Region into) override {
    return run(pool_, call, reads_, [file = descriptor_, offset, region = std::move(into)] {
      return read_region(file->number(), offset, region.bytes);
    });
  }
  Task<Result<std::size_t>> read_direct(Call call, std::uint64_t offset, std::size_t count,
                                        Region into) override {
    return run(pool_, call, reads_, [file = descriptor_, offset, count, region = std::move(into)] {
      return read_around(file->direct(), file->number(), offset, count, region.bytes);
    });
  }
  bool is_resident(std::uint64_t offset, std::size_t count) noexcept override {
    if (descriptor_->direct() < 0 || count == 0) return true;
    const auto page = static_cast<std::uint64_t>(getpagesize());
    const auto cached = pages_in_cache(descriptor(), offset, count);
    return !cached || *cached >= (offset + count - 1) / page - offset / page + 1;
  }
  Task<Result<>> write_blocks(Call call, std::uint64_t offset, std::vector<HeapBytes> blocks,
                              Sync sync) override {
    return run(pool_, call, changes_,
               [file = descriptor_, offset, from = std::move(blocks), sync]() -> Result<> {
                 TRY_VOID(write_vector(file->number(), offset, from));
                 if (sync == Sync::data && fdatasync(file->number()) != 0) return failed("sync");
                 return {};
               });
  }
  Task<Result<>> sync_data(Call call) override {
    return run(pool_, call, changes_, [file = descriptor_]() -> Result<> {
      if (fdatasync(file->number()) != 0) return failed("sync");
      return {};
    });
  }
  Task<Result<>> truncate(Call call, std::uint64_t size) override {
    return run(pool_, call, changes_, [file = descriptor_, size]() -> Result<> {
      if (ftruncate(file->number(), static_cast<off_t>(size)) != 0) return failed("truncate");
      return {};
    });
  }
  Task<Result<bool>> allocate(Call call, std::uint64_t size) override {
    return run(pool_, call, changes_, [file = descriptor_, size]() -> Result<bool> {
      if (fallocate(file->number(), 0, 0, static_cast<off_t>(size)) == 0) return true;
      if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return false;
      return failed("allocate");
    });
  }
  Result<std::uint64_t> size() const noexcept override {
    struct stat is{};
    if (fstat(descriptor(), &is) != 0) return failed("stat");
    return static_cast<std::uint64_t>(is.st_size);
  }
  bool is_named() const noexcept override {
    struct stat is{};
    return fstat(descriptor(), &is) != 0 || is.st_nlink > 0;
  }
  // Asked once a second per file: the probe costs a system call, and memory does not cool that fast.
  bool is_warm(std::uint64_t offset, std::size_t count) noexcept override {
    const Instant now = current_shard()->now();
    if (now < warm_until_ && offset >= warm_from_ && offset + count <= warm_to_) return true;
    std::byte last;
    const iovec part{&last, 1};
    if (preadv2(descriptor(), &part, 1, static_cast<off_t>(offset + count - 1), RWF_NOWAIT) < 0) return false;
    keep_warm(offset, count);
    return true;
  }
  Task<Result<>> warm(Call call, std::uint64_t offset, std::size_t count) override {
    CO_TRY_VOID(co_await run(pool_, call, reads_, [file = descriptor_, offset, count]() -> Result<> {
      if (::readahead(file->number(), static_cast<off64_t>(offset), count) != 0) return failed("readahead");
      std::byte last;
      if (pread(file->number(), &last, 1, static_cast<off_t>(offset + count - 1)) < 0) return failed("read");
      return {};
    }));
    keep_warm(offset, count);
    co_return Result<>{};
  }
  Result<std::size_t> copy_out(std::uint64_t offset, MutableByteView into) noexcept override {
    return read_region(descriptor(), offset, into);
  }
  int descriptor() const noexcept override { return descriptor_->number(); }

 private:
  void keep_warm(std::uint64_t offset, std::size_t count) noexcept {
    warm_from_ = offset;
    warm_to_ = offset + count;
    warm_until_ = current_shard()->now() + Duration::seconds(1);
  }
  Pool& pool_;
  Lane reads_, changes_;
  SharedDescriptor descriptor_;
  std::uint64_t warm_from_ = 0, warm_to_ = 0;
  Instant warm_until_{};
};

int flags_of(OpenMode mode) noexcept {
  switch (mode) {
    case OpenMode::read:
    case OpenMode::read_direct:
      return O_RDONLY;
    case OpenMode::write:
      return O_RDWR;
    case OpenMode::create_new:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

Result<> checked(int outcome, const char* context) noexcept {
  if (outcome != 0) return failed(context);
  return {};
}

}  // namespace

KernelDisk::KernelDisk(Pool& pool)
    : root_(*this),
      pool_(pool),
      reads_(Lane::read),
      changes_(Lane::upkeep),
      closer_(std::make_shared<Closer>(pool)),
      commits_(new KernelDisk(*this, Lane::commit)),
      upkeep_(new KernelDisk(*this, Lane::upkeep)) {}
KernelDisk::KernelDisk(KernelDisk& root, Lane all) noexcept
    : root_(root), pool_(root.pool_), reads_(all), changes_(all), closer_(root.closer_) {}
KernelDisk::~KernelDisk() {
  if (&root_ == this) closer_->end();
}

Task<Result<std::unique_ptr<File>>> KernelDisk::open(Call call, std::string path, OpenMode mode) {
  closer_->retry();
  // A waiter that left must not leak its open file: the descriptor closes with the job.
  const bool reads = mode == OpenMode::read || mode == OpenMode::read_direct;
  CO_TRY(auto opened, co_await run(pool_, call, reads ? reads_ : changes_,
                                   [this, path = std::move(path), mode]() -> Result<std::unique_ptr<File>> {
                                     // O_NONBLOCK: a pipe at that path would block the lane until a writer
                                     // opens it.
                                     const int descriptor =
                                         ::open(path.c_str(), flags_of(mode) | O_CLOEXEC | O_NONBLOCK, 0600);
                                     if (descriptor < 0) return failed("open");
                                     struct stat is{};
                                     if (fstat(descriptor, &is) != 0 || !S_ISREG(is.st_mode)) {
                                       close_here(descriptor);
                                       return fail(ErrorCode::not_found, "not a file");
                                     }
                                     const int direct =
                                         mode == OpenMode::read_direct ? open_direct(descriptor, path) : -1;
                                     return std::make_unique<KernelFile>(pool_, reads_, changes_,
                                                                         closer_->hold(descriptor, direct));
                                   }));
  co_return std::move(opened);
}

Task<Result<>> KernelDisk::rename(Call call, std::string from, std::string to) {
  return run(pool_, call, changes_, [from = std::move(from), to = std::move(to)] {
    return checked(::rename(from.c_str(), to.c_str()), "rename");
  });
}

Task<Result<>> KernelDisk::unlink(Call call, std::string path) {
  return run(pool_, call, changes_,
             [path = std::move(path)] { return checked(::unlink(path.c_str()), "unlink"); });
}

Task<Result<>> KernelDisk::make_directory(Call call, std::string path) {
  return run(pool_, call, changes_,
             [path = std::move(path)] { return checked(::mkdir(path.c_str(), 0700), "mkdir"); });
}

Task<Result<std::vector<std::string>>> KernelDisk::list(Call call, std::string path) {
  return run(pool_, call, reads_, [path = std::move(path)]() -> Result<std::vector<std::string>> {
    DIR* directory = opendir(path.c_str());
    if (directory == nullptr) return failed("list");
    std::vector<std::string> names;
    while (const dirent* entry = readdir(directory)) {
      std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(std::move(name));
    }
    closedir(directory);
    std::sort(names.begin(), names.end());
    return names;
  });
}

Task<Result<>> KernelDisk::sync_directory(Call call, std::string path) {
  return run(pool_, call, changes_, [path = std::move(path)]() -> Result<> {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return failed("open directory");
    const Result<> synced = checked(fsync(descriptor), "sync directory");
    close_here(descriptor);
    return synced;
  });
}

Task<Result<FreeSpace>> KernelDisk::free_space(Call call, std::string path) {
  closer_->retry();
  return run(pool_, call, reads_, [path = std::move(path)]() -> Result<FreeSpace> {
    struct statvfs is{};
    if (statvfs(path.c_str(), &is) != 0) return failed("free space");
    return FreeSpace{std::uint64_t{is.f_bavail} * is.f_frsize, is.f_files > 0 ? is.f_favail : UINT64_MAX};
  });
}

Task<Result<std::uint64_t>> KernelDisk::total_space(Call call, std::string path) {
  return run(pool_, call, reads_, [path = std::move(path)]() -> Result<std::uint64_t> {
    struct statvfs is{};
    if (statvfs(path.c_str(), &is) != 0) return failed("total space");
    return std::uint64_t{is.f_blocks} * is.f_frsize;
  });
}

}  // namespace cairn::io
