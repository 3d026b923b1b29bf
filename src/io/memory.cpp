#include "io/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace cairn::io {
namespace {

std::unexpected<Error> read_only() noexcept {
  return fail(ErrorCode::io_failed, "an arena is written through its memory");
}

}  // namespace

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
    at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) {
    close(descriptor);
    return fail(ErrorCode::io_failed, "memory of an arena");
  }
  return std::unique_ptr<Arena>(new MemoryArena(static_cast<std::byte*>(at), size, descriptor));
}

MemoryArena::~MemoryArena() {
  munmap(data_, size_);
  close(file_.descriptor());
}

void MemoryArena::punch(std::size_t offset, std::size_t count) noexcept {
  CHECK(offset % page == 0 && count % page == 0 && offset <= size_ && count <= size_ - offset);
  if (count == 0) return;
  int done = 0;
  do {
    done = fallocate(file_.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offset), static_cast<off_t>(count));
  } while (done != 0 && errno == EINTR);
  // Going on would change bytes that a peer is about to read.
  CHECK(done == 0);
}

}  // namespace cairn::io
