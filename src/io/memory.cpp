#include "io/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace cairn::io {
namespace {

// MADV_COLLAPSE: makes one large page of the present pages and zeros, whatever the system's setting for
// shared memory. Since Linux 6.1; the headers may be older than the kernel.
constexpr int collapse = 25;

std::unexpected<Error> read_only() noexcept {
  return fail(ErrorCode::io_failed, "an arena is written through its memory");
}

// Maps the file at an address that is a multiple of the block.
void* map_aligned(int descriptor, std::size_t size) noexcept {
  const std::size_t wide = size + Arena::block;
  if (wide < size) return MAP_FAILED;
  void* space = mmap(nullptr, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return MAP_FAILED;
  const std::size_t into = reinterpret_cast<std::uintptr_t>(space) % Arena::block;
  std::byte* const first = static_cast<std::byte*>(space);
  std::byte* const aligned = first + (into == 0 ? 0 : Arena::block - into);
  void* at = mmap(aligned, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0);
  if (at == MAP_FAILED) {
    munmap(space, wide);
    return MAP_FAILED;
  }
  const auto before = static_cast<std::size_t>(aligned - first);
  if (before > 0) munmap(first, before);
  if (before + size < wide) munmap(aligned + size, wide - before - size);
  return at;
}

// Whether the system's setting for shared memory makes the kernel give more than the touched page. Called
// before the arena is used.
bool gives_large_pages(int descriptor, std::byte* at, std::size_t size) noexcept {
  *static_cast<volatile std::byte*>(at) = std::byte{0};
  struct stat file{};
  constexpr off_t stat_block = 512;
  const bool more = fstat(descriptor, &file) != 0 || file.st_blocks * stat_block > off_t{Arena::page};
  return fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) !=
             0 ||
         more;
}

}  // namespace

void HugeBlocks::add(std::size_t offset) noexcept {
  const std::size_t at = offset / Arena::block;
  CHECK(offset % Arena::block == 0 && at < huge_.size());
  CHECK(!huge_[at].exchange(true, std::memory_order_relaxed));
}

void HugeBlocks::remove(std::size_t offset, std::size_t count) noexcept {
  const std::size_t end = offset + count;
  for (std::size_t at = offset / Arena::block; at * Arena::block < end && at < huge_.size(); ++at) {
    if (!huge_[at].load(std::memory_order_relaxed)) continue;
    const bool whole_block = at * Arena::block >= offset && (at + 1) * Arena::block <= end;
    CHECK(whole_block);  // MM-1
    huge_[at].store(false, std::memory_order_relaxed);
  }
}

Result<std::size_t> ArenaFile::try_read_into(std::uint64_t offset, MutableByteView into) noexcept {
  if (offset >= bytes_.size()) return 0;
  const ByteView from = bytes_.subspan(static_cast<std::size_t>(offset));
  const std::size_t count = std::min(from.size(), into.size());
  if (count > 0) std::memcpy(into.data(), from.data(), count);
  return count;
}

Result<std::size_t> ArenaFile::try_read(std::uint64_t offset, std::size_t count, Buffer& into) noexcept {
  const MutableByteView room = into.room();
  TRY(const std::size_t got, try_read_into(offset, room.first(std::min(count, room.size()))));
  into.fill(got);
  return got;
}

Task<Result<Buffer>> ArenaFile::read(Call, std::uint64_t offset, std::size_t count, Buffer into) {
  CO_TRY_VOID(try_read(offset, count, into));
  co_return into;
}

Task<Result<std::size_t>> ArenaFile::read_into(Call, std::uint64_t offset, Region into) {
  co_return try_read_into(offset, into.bytes);
}

Task<Result<Buffer>> ArenaFile::write(Call, std::uint64_t, Buffer) { co_return read_only(); }
Task<Result<>> ArenaFile::write_blocks(Call, std::uint64_t, std::vector<HeapBytes>, Sync) {
  co_return read_only();
}
Task<Result<>> ArenaFile::sync_data(Call) { co_return read_only(); }
Task<Result<>> ArenaFile::truncate(Call, std::uint64_t) { co_return read_only(); }

Result<std::unique_ptr<Arena>> MemoryArena::make(std::size_t bytes) {
  const std::size_t size = (bytes + page - 1) / page * page;
  if (size == 0 || size < bytes) return fail(ErrorCode::invalid, "size of an arena");
  const int descriptor = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return fail(ErrorCode::io_failed, "memfd");
  void* at = MAP_FAILED;
  // Sealed: a file that became shorter would turn reads of the mapping into a signal.
  if (ftruncate(descriptor, static_cast<off_t>(size)) == 0 &&
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    at = map_aligned(descriptor, size);
  if (at == MAP_FAILED) {
    close(descriptor);
    return fail(ErrorCode::io_failed, "memory of an arena");
  }
  std::unique_ptr<Arena> arena(new MemoryArena(static_cast<std::byte*>(at), size, descriptor));
  // Large pages that the kernel gives unasked would break MM-1, so large pages are then disabled.
  if (gives_large_pages(descriptor, arena->data(), size) &&
      (madvise(at, size, MADV_NOHUGEPAGE) != 0 || gives_large_pages(descriptor, arena->data(), size)))
    return fail(ErrorCode::io_failed, "shared memory comes in large pages only (shmem_enabled)");
  return arena;
}

MemoryArena::~MemoryArena() {
  munmap(data_, size_);
  close(file_.descriptor());
}

void MemoryArena::punch(std::size_t offset, std::size_t count) noexcept {
  CHECK(offset % page == 0 && count % page == 0 && offset <= size_ && count <= size_ - offset);
  if (count == 0) return;
  huge_.remove(offset, count);
  int done = 0;
  do {
    done = fallocate(file_.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offset), static_cast<off_t>(count));
  } while (done != 0 && errno == EINTR);
  // Going on would change bytes that a peer is about to read.
  CHECK(done == 0);
}

bool MemoryArena::make_huge(std::size_t offset) noexcept {
  huge_.add(offset);
  // The kernel does not collapse a block without any page.
  *static_cast<volatile std::byte*>(data_ + offset) = std::byte{0};
  if (madvise(data_ + offset, block, collapse) == 0) return true;
  punch(offset, block);
  return false;
}

}  // namespace cairn::io
