#include "store/log_reserve.h"

#include <algorithm>
#include <cstring>

#include "runtime/random.h"

namespace cairn::store {
namespace {

constexpr std::uint64_t block_size = 1 << 20;
// A disk that has room for no more than this would soon want it back.
constexpr std::uint64_t room_factor = 2;
constexpr Duration between_tries = Duration::seconds(1);

// Noise: a file system that compresses would keep zeros for nothing.
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

}  // namespace

LogReserve::LogReserve(io::Machine& machine, std::string directory, std::uint64_t size)
    : machine_(machine), directory_(std::move(directory)), path_(directory_ + "/reserve"), size_(size) {}

std::uint64_t LogReserve::room_to_make() const noexcept { return there_ ? 0 : size_ * room_factor; }

Task<Result<>> LogReserve::open(Call call) {
  auto opened = co_await machine_.disk.open(call, path_, io::OpenMode::read);
  if (!opened && opened.error().code != ErrorCode::not_found) co_return fail(opened.error());
  if (opened) {
    CO_TRY(const std::uint64_t found, (*opened)->size());
    opened->reset();
    there_ = size_ > 0 && found == size_;
    if (!there_) CO_TRY_VOID(co_await machine_.disk.unlink(call, path_));
  }
  if (there_ || size_ == 0) co_return Result<>{};
  const auto made = co_await make(call);
  if (!made && made.error().code != ErrorCode::storage_full) co_return fail(made.error());
  co_return Result<>{};
}

Task<Result<>> LogReserve::make(Call call) {
  CO_TRY(const std::uint64_t room, co_await machine_.disk.free_space(call, directory_));
  if (room < room_to_make()) co_return fail(ErrorCode::storage_full, "reserve");
  auto opened = co_await machine_.disk.open(call, path_, io::OpenMode::create_new);
  if (!opened && opened.error().code == ErrorCode::conflict)
    opened = co_await machine_.disk.open(call, path_, io::OpenMode::write);  // of a try that failed
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

// Asked of the file system; written where that does not know how.
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
  if (there_ || size_ == 0) co_return true;
  if (machine_.shard.now() < next_try_) co_return false;
  next_try_ = machine_.shard.now() + between_tries;
  co_return (co_await make(call)).has_value();
}

Task<bool> LogReserve::release(Call call) {
  if (!there_) co_return false;
  there_ = false;
  next_try_ = machine_.shard.now() + between_tries;
  if (!co_await machine_.disk.unlink(call, path_)) co_return false;
  // Some file systems give the blocks back only when the removal is on the disk.
  co_return (co_await machine_.disk.sync_directory(call, directory_)).has_value();
}

}  // namespace cairn::store
