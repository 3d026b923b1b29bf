#include "store/log_reserve.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/random.h"

namespace cairn::store {
namespace {

constexpr std::uint64_t block_size = 1 << 20;
// A disk with room for less than this many reserves would soon want the space back.
constexpr std::uint64_t room_factor = 2;
constexpr Duration between_tries = Duration::seconds(1);

// Noise: a file system that compresses would keep no blocks for zeros.
HeapBytes make_block(std::size_t size, Random& random) {
  HeapBytes block(size);
  while (block.size() < size) {
    const std::uint64_t word = random.next();
    const std::size_t count = std::min(sizeof word, size - block.size());
    std::memcpy(block.room().data(), &word, count);
    block.fill(count);
  }
  return block;
}

std::string space_path(const std::string& directory) { return directory + "/reserve"; }
std::string file_path(const std::string& directory, std::uint64_t number) {
  return space_path(directory) + '.' + std::to_string(number);
}

}  // namespace

LogReserve::LogReserve(io::Machine& machine, std::string directory, std::uint64_t size, std::uint64_t files,
                       std::string_view name)
    : machine_(machine),
      directory_(std::move(directory)),
      path_(directory_ + '/' + std::string(name)),
      size_(size),
      files_(files) {}

io::FreeSpace LogReserve::room_to_make() const noexcept {
  return {there_ ? 0 : size_ * room_factor, (files_ - files_there_) * room_factor};
}

Task<Result<>> LogReserve::open(Call call) {
  auto opened = co_await machine_.disk.open(call, path_, io::OpenMode::read);
  if (!opened && opened.error().code != ErrorCode::not_found) co_return fail(opened.error());
  if (opened) {
    CO_TRY(const std::uint64_t found, (*opened)->size());
    opened->reset();
    there_ = size_ > 0 && found == size_;
    if (!there_) CO_TRY_VOID(co_await machine_.disk.unlink(call, path_));
  }
  while (files_there_ < files_) {
    const std::string path = file_path(directory_, files_there_ + 1);
    const auto found = co_await machine_.disk.open(call, path, io::OpenMode::read);
    if (!found && found.error().code != ErrorCode::not_found) co_return fail(found.error());
    if (!found) break;
    ++files_there_;
  }
  if (is_whole()) co_return Result<>{};
  const auto made = co_await make(call);
  if (!made && made.error().code != ErrorCode::storage_full) co_return fail(made.error());
  co_return Result<>{};
}

Task<Result<>> LogReserve::make(Call call) {
  CO_TRY(const io::FreeSpace room, co_await machine_.disk.free_space(call, directory_));
  const io::FreeSpace needed = room_to_make();
  if (room.files < needed.files || room.bytes < needed.bytes)
    co_return fail(ErrorCode::storage_full, "reserve");
  if (!there_ && size_ > 0) CO_TRY_VOID(co_await make_space(call));
  co_return co_await make_files(call);
}

Task<Result<>> LogReserve::make_files(Call call) {
  for (; files_there_ < files_; ++files_there_) {
    const auto made =
        co_await machine_.disk.open(call, file_path(directory_, files_there_ + 1), io::OpenMode::create_new);
    if (!made && made.error().code != ErrorCode::conflict) co_return fail(made.error());
  }
  co_return Result<>{};
}

Task<Result<>> LogReserve::make_space(Call call) {
  auto opened = co_await machine_.disk.open(call, path_, io::OpenMode::create_new);
  if (!opened && opened.error().code == ErrorCode::conflict) {
    // Left by a try that failed, or by another program.
    CO_TRY_VOID(co_await machine_.disk.unlink(call, path_));
    opened = co_await machine_.disk.open(call, path_, io::OpenMode::create_new);
  }
  if (!opened) co_return fail(opened.error());
  const auto written = co_await fill(call, **opened);
  opened->reset();
  if (!written) {
    (void)co_await machine_.disk.unlink(call, path_);
    co_return fail(written.error());
  }
  there_ = true;
  co_return Result<>{};
}

// Asks the file system for the blocks; writes them where it cannot give them.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<>> LogReserve::fill(Call call, io::File& file) {
  CO_TRY(const bool allocated, co_await file.allocate(call, size_));
  if (allocated) co_return Result<>{};
  Random random(size_);
  for (std::uint64_t at = 0; at < size_; at += block_size) {
    std::vector<HeapBytes> blocks;
    blocks.push_back(make_block(static_cast<std::size_t>(std::min(size_ - at, block_size)), random));
    CO_TRY_VOID(co_await file.write_blocks(call, at, std::move(blocks), io::Sync::no));
  }
  co_return co_await file.sync_data(call);
}

Task<bool> LogReserve::ensure(Call call) {
  if (is_whole()) co_return true;
  if (machine_.shard.now() < next_try_) co_return false;
  next_try_ = machine_.shard.now() + between_tries;
  co_return (co_await make(call)).has_value();
}

Task<bool> LogReserve::release(Call call) {
  if (!there_ && files_there_ == 0) co_return false;
  const bool space = std::exchange(there_, false);
  next_try_ = machine_.shard.now() + between_tries;
  for (; files_there_ > 0; --files_there_)
    if (!co_await machine_.disk.unlink(call, file_path(directory_, files_there_))) co_return false;
  if (space && !co_await machine_.disk.unlink(call, path_)) co_return false;
  // Some file systems give the blocks back only when the removal is on the disk.
  co_return (co_await machine_.disk.sync_directory(call, directory_)).has_value();
}

Task<> release_reserve(Call call, io::Machine machine, std::string directory, std::uint64_t files) {
  for (std::uint64_t i = files; i > 0; --i) (void)co_await machine.disk.unlink(call, file_path(directory, i));
  (void)co_await machine.disk.unlink(call, space_path(directory));
  (void)co_await machine.disk.sync_directory(call, directory);  // as LogReserve::release
}

}  // namespace cairn::store
