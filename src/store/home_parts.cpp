#include "store/home_parts.h"

#include <algorithm>

#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr std::size_t page = 512;

}  // namespace

std::uint64_t HomeParts::live_bytes(std::uint32_t segment) const noexcept {
  const auto found = indexer->live().find(segment);
  return found == indexer->live().end() || found->second < 0 ? 0 : static_cast<std::uint64_t>(found->second);
}

std::set<std::uint32_t> HomeParts::segments_of_index_alone() const {
  std::set<std::uint32_t> alone;
  for (const auto& [segment, live] : indexer->live()) alone.insert(segment);
  for (const SegmentInfo& one : segments->segments()) alone.erase(one.id);
  return alone;
}

void HomeParts::publish_totals() noexcept {
  StoreStatus& status = store.status();
  const Totals& totals = indexer->totals();
  status.objects = totals.objects;
  status.bytes = totals.bytes;
  status.uploads = totals.uploads;
  status.upload_bytes = indexer->upload_bytes();
  status.quarantined = totals.quarantined;
  const LogSize size = segments->size();
  std::uint64_t live = indexer->live_bytes();
  for (const std::uint32_t segment : absent) live -= live_bytes(segment);
  status.segments = size.segments;
  status.lost_segments = segments->lost().size();
  status.first_lost = segments->lost().empty() ? 0 : segments->lost().front();
  if (totals.quarantined == 0) status.lossy = false;
  status.log_bytes = size.bytes;
  status.dead_bytes = size.bytes - std::min(size.bytes, live);
}

void HomeParts::tell_foreign() {
  for (const ForeignFile& one : segments->take_foreign())
    log.error(
        "a file that is not of this log was set aside",
        {{"path", one.path}, {"segment", one.segment}, {"header_segment", one.header_segment.value_or(0)}});
}

void HomeParts::fence(const char* why) noexcept {
  if (store.status().fenced.exchange(true)) return;
  log.error("writes are fenced until the next start", {{"why", why}});
}

std::size_t HomeParts::batch_max(std::size_t wanted) const noexcept {
  // One more record may join the batch: at most as large, or of a part.
  return std::min<std::size_t>(wanted, (store.options().segment_size - 2 * segment_header_size) / 4);
}

Task<Result<>> HomeParts::flush_index(Call call) {
  auto flushed = co_await kv->flush(call);
  if (is_full(flushed) && co_await segments->release_reserve(call)) flushed = co_await kv->flush(call);
  co_return flushed;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<std::vector<HeapBytes>>> HomeParts::read_data(Call call, const Entry& entry) {
  const std::uint64_t from = entry.data_at();
  const std::uint32_t size = entry.header.data_size;
  CO_TRY(auto file, co_await files->get(call, entry.at.segment));
  auto memory = std::make_shared<HeapBytes>(size);
  CO_TRY(const std::size_t got, co_await file->read_into(call, from, {memory->room(), memory}));
  memory->fill(got);
  std::vector<HeapBytes> data;
  data.push_back(std::move(*memory));
  co_return data;
}

bool HomeParts::is_hit(const Place& place, std::span<const Damage> damages) noexcept {
  return std::any_of(damages.begin(), damages.end(), [&](const Damage& one) {
    return place.at.segment == one.segment && place.at.offset < one.to && place.end() > one.from;
  });
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<bool>> HomeParts::is_hurt(Call call, const ObjectEntry& entry, const PlaceTest& is_bad) {
  if (is_bad(entry.place)) co_return true;
  for (std::uint32_t first = 0; entry.token;) {
    CO_TRY(const auto parts, co_await indexer->parts(call, *entry.token, first, page));
    if (parts.empty()) break;
    for (const Indexer::NumberedPart& one : parts)
      if (is_bad(one.entry.place)) co_return true;
    first = parts.back().index + 1;
  }
  co_return false;
}

}  // namespace cairn::store
