#include "store/log_removals.h"

#include <algorithm>
#include <cstring>

namespace cairn::store {
namespace {

void include(std::vector<SegmentRange>& ranges, std::uint32_t segment) {
  const auto after = std::find_if(ranges.begin(), ranges.end(),
                                  [&](const SegmentRange& range) { return range.last + 1 >= segment; });
  if (after == ranges.end() || after->first > segment + 1) {
    ranges.insert(after, {segment, segment});
    return;
  }
  after->first = std::min(after->first, segment);
  after->last = std::max(after->last, segment);
  const auto next = after + 1;
  if (next == ranges.end() || next->first > after->last + 1) return;
  after->last = next->last;
  ranges.erase(next);
}

// Merges the two ranges that are nearest to each other.
void merge_nearest(std::vector<SegmentRange>& ranges) {
  std::size_t best = 1;
  for (std::size_t i = 2; i < ranges.size(); ++i)
    if (ranges[i].first - ranges[i - 1].last < ranges[best].first - ranges[best - 1].last) best = i;
  ranges[best - 1].last = ranges[best].last;
  ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(best));
}

HeapBytes zeros(std::size_t size) {
  HeapBytes bytes(size);
  std::memset(bytes.room().data(), 0, size);
  bytes.fill(size);
  return bytes;
}

}  // namespace

LogRemovals::LogRemovals(io::Machine machine, std::string directory, crypto::Hash store_key)
    : machine_(machine),
      directory_(std::move(directory)),
      path_(directory_ + "/removed"),
      store_key_(store_key) {}

Task<Result<LogRemovals::Found>> LogRemovals::open(Call call) {
  auto opened = co_await machine_.disk.open(call, path_, io::OpenMode::read);
  if (!opened && opened.error().code == ErrorCode::not_found) co_return Found::none;
  if (!opened) co_return fail(opened.error());
  for (const std::uint64_t slot : {0u, 1u}) {
    auto bytes = std::make_shared<HeapBytes>(removal_slot_size);
    const auto got = co_await (*opened)->read_into(call, slot * removal_slot_size, {bytes->room(), bytes});
    if (!got && got.error().code == ErrorCode::io_failed) continue;
    if (!got) co_return fail(got.error());
    bytes->fill(*got);
    RemovalNotes notes;
    if (decode_removals(std::as_const(*bytes).bytes(), store_key_, notes) != HeadState::good) continue;
    if (there_ && notes.turn <= notes_.turn) continue;
    notes_ = std::move(notes);
    there_ = true;
  }
  co_return there_ ? Found::good : Found::damaged;
}

bool LogRemovals::contains(std::uint32_t segment) const noexcept {
  return std::any_of(notes_.removed.begin(), notes_.removed.end(), [&](const SegmentRange& range) {
    return range.first <= segment && segment <= range.last;
  });
}

// Made under another name until it is whole: a file that has this name and is not good is rot.
Task<Result<>> LogRemovals::make(Call call) {
  const std::string fresh = path_ + ".new";
  auto opened = co_await machine_.disk.open(call, fresh, io::OpenMode::create_new);
  if (!opened && opened.error().code == ErrorCode::conflict)
    opened = co_await machine_.disk.open(call, fresh, io::OpenMode::write);  // of a try that failed
  if (!opened) co_return fail(opened.error());
  std::vector<HeapBytes> blocks;
  blocks.push_back(zeros(2 * removal_slot_size));
  CO_TRY_VOID(co_await (*opened)->write_blocks(call, 0, std::move(blocks), io::Sync::no));
  blocks.clear();
  blocks.push_back(encode_removals(notes_, store_key_));
  CO_TRY_VOID(co_await (*opened)->write_blocks(call, notes_.turn % 2 * removal_slot_size, std::move(blocks),
                                               io::Sync::data));
  opened->reset();
  CO_TRY_VOID(co_await machine_.disk.rename(call, fresh, path_));
  CO_TRY_VOID(co_await machine_.disk.sync_directory(call, directory_));
  there_ = true;
  co_return Result<>{};
}

Task<Result<>> LogRemovals::add(Call call, std::vector<std::uint32_t> segments, std::uint64_t floor) {
  for (const std::uint32_t segment : segments) include(notes_.removed, segment);
  while (notes_.removed.size() > removal_ranges_max) merge_nearest(notes_.removed);
  notes_.floor = std::max(notes_.floor, floor);
  ++notes_.turn;
  if (!there_) co_return co_await make(call);
  CO_TRY(const std::unique_ptr<io::File> file, co_await machine_.disk.open(call, path_, io::OpenMode::write));
  std::vector<HeapBytes> blocks;
  blocks.push_back(encode_removals(notes_, store_key_));
  const std::uint64_t at = notes_.turn % 2 * removal_slot_size;
  const auto written = co_await file->write_blocks(call, at, std::move(blocks), io::Sync::data);
  // The other slot is known to be good, so the next try goes to this one again.
  if (!written) --notes_.turn;
  co_return written;
}

}  // namespace cairn::store
