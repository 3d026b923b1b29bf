// The scrubber: looks at everything that is stored, again and again, each pass spread over an interval. Where
// it is in a pass is noted beside the log, so that a service which is often restarted comes to the end, too.
#include <algorithm>

#include "runtime/wait.h"
#include "store/object_home.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr Duration note_every = Duration::seconds(60);
constexpr Duration worth_waiting = Duration::millis(100);
constexpr Duration after_failure = Duration::seconds(10);

}  // namespace

// --- pace

// Each byte has its share of the interval; how fast it is read at most is another matter. False: a whole pass
// was asked for, now. `next`: where this one would go on.
Task<Result<bool>> ObjectHome::keep_pace(Call call, ScrubPass* pass, std::uint64_t bytes, Position next) {
  pass->bytes += bytes;
  while (pass->spread) {
    if (scrub_now_) co_return false;
    if (next != pass->noted && machine_.shard.now() - pass->noted_at >= note_every) {
      // Where it cannot be noted more is looked at again.
      (void)co_await note_scrub(call, next);
      pass->noted = next;
      pass->noted_at = machine_.shard.now();
    }
    const double share = static_cast<double>(pass->bytes) /
                         static_cast<double>(std::max<std::uint64_t>(segments_->size().bytes, 1));
    const auto span =
        static_cast<std::int64_t>(static_cast<double>(scrub_interval_.ns) * std::min(share, 1.0));
    const Duration rest = pass->began + Duration{span} - machine_.shard.now();
    if (rest < worth_waiting) break;
    (void)co_await ListWait(call.within(std::min(rest, note_every)), scrub_asked_, "scrub");
    if (call.stopped()) co_return fail(ErrorCode::cancelled, "the scrubber was stopped");
  }
  co_return true;
}

// Not synced: an older note, or none, only makes it look again at what it has seen.
Task<Result<>> ObjectHome::note_scrub(Call call, Position next) {
  const io::Machine upkeep = machine_.for_upkeep();
  const std::string path = store_.options_.directory + "/scrub";
  auto file = co_await upkeep.disk.open(call, path, io::OpenMode::write);
  if (!file && file.error().code == ErrorCode::not_found)
    file = co_await upkeep.disk.open(call, path, io::OpenMode::create_new);
  if (!file) co_return fail(file.error());
  std::vector<HeapBytes> blocks;
  blocks.push_back(encode_scrub_note(next));
  co_return co_await (*file)->write_blocks(call, 0, std::move(blocks), io::Sync::no);
}

Task<Position> ObjectHome::noted_scrub(Call call) {
  const io::Machine upkeep = machine_.for_upkeep();
  const auto file = co_await upkeep.disk.open(call, store_.options_.directory + "/scrub", io::OpenMode::read);
  if (!file) co_return Position{};
  auto bytes = std::make_shared<HeapBytes>(head_size);
  const auto got = co_await (*file)->read_into(call, 0, {bytes->room(), bytes});
  if (!got) co_return Position{};
  bytes->fill(*got);
  Position noted;
  co_return decode_scrub_note(std::as_const(*bytes).bytes(), noted) == HeadState::good ? noted : Position{};
}

// --- a pass

Task<Result<>> ObjectHome::scrub_index(Call call) {
  std::string from;
  do {
    CO_TRY(KvVerified some, co_await kv_->verify(call, std::move(from)));
    store_.status_.scrub_bytes.fetch_add(some.bytes, std::memory_order_relaxed);
    CO_TRY_VOID(co_await scrub_pace_.take(call, some.bytes));
    from = std::move(some.next);
  } while (!from.empty());
  co_return Result<>{};
}

Task<Result<>> ObjectHome::scrub_record(
    Call call, std::shared_ptr<io::File> file,
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
    const Entry& entry) {
  CO_TRY_VOID(co_await scrub_pace_.take(call, entry.header.size()));
  store_.status_.scrub_bytes.fetch_add(entry.header.size(), std::memory_order_relaxed);
  if (entry.header.data_size == 0) co_return Result<>{};
  CO_TRY(const bool needed, co_await indexer_->is_needed(call, entry, machine_.shard.wall()));
  if (!needed) co_return Result<>{};
  const auto data = co_await read_data(call, entry);
  if (!data && data.error().code != ErrorCode::io_failed) co_return fail(data.error());
  if (!data) {
    // The bytes may be good the next time: named, not quarantined.
    store_.status_.damage.fetch_add(1);
    damaged_[entry.at.segment] = true;
    log_.error("stored bytes cannot be read", {{"segment", entry.at.segment}, {"offset", entry.at.offset}});
    co_return Result<>{};
  }
  if (is_data_right(entry.header, as_bytes(entry.meta), data->front().bytes())) co_return Result<>{};
  CO_TRY(const bool whole, co_await is_right_on_disk(call, std::move(file), entry));
  if (whole) co_return Result<>{};
  store_.status_.rot.fetch_add(1);
  damaged_[entry.at.segment] = true;
  co_return co_await quarantine_damage(
      call, {entry.at.segment, entry.at.offset, entry.at.offset + entry.header.size(), 0, 0});
}

Task<Result<bool>> ObjectHome::scrub_segment(Call call, ScrubPass* pass, std::uint32_t segment,
                                             std::uint64_t from, std::uint64_t end) {
  CO_TRY(auto file, co_await files_->get(call, segment));
  auto scan = std::make_unique<SegmentScan>(machine_, file, segment, segments_->key_of(segment), from, end);
  bool sure = false;  // what it says is what the disk has
  store_.status_.scrub_segment = segment;
  for (;;) {
    CO_TRY(auto found, co_await scan->next(call));
    if (found.damage && !sure && found.damage->from < found.damage->to) {
      const std::uint64_t bad = found.damage->from;
      scan = std::make_unique<SegmentScan>(machine_, file, segment, segments_->key_of(segment), bad, end);
      scan->look_past_cache();
      sure = true;
      continue;
    }
    if (found.damage) {
      CO_TRY_VOID(co_await on_damage(call, *found.damage));
      found_.pop_back();
      CO_TRY_VOID(co_await quarantine_damage(call, *found.damage));
      continue;
    }
    if (!found.entry) co_return true;
    const Entry& entry = *found.entry;
    CO_TRY_VOID(co_await scrub_record(call, file, entry));
    const Position next{segment, static_cast<std::uint32_t>(entry.at.offset + entry.header.size())};
    CO_TRY(const bool goes_on, co_await keep_pace(call, pass, entry.header.size(), next));
    if (!goes_on) co_return false;
  }
}

Task<Result<bool>> ObjectHome::scrub_pass(Call call, ScrubPass* pass, Position from) {
  CO_TRY_VOID(co_await scrub_index(call));
  for (const Damage& damage : std::exchange(found_, {}))
    CO_TRY_VOID(co_await quarantine_damage(call, damage));
  const Position durable_end = segments_->end().next;
  for (const SegmentInfo& one : segments_->segments()) {
    const std::uint64_t begin = one.id == from.segment ? from.offset : 0;
    const std::uint64_t end = one.id == durable_end.segment ? durable_end.offset : one.size;
    if (one.id < from.segment || begin >= end) continue;
    auto done = co_await scrub_segment(call, pass, one.id, begin, end);
    // Compaction may have taken it away meanwhile.
    if (!done && done.error().code != ErrorCode::not_found) co_return fail(done.error());
    if (done && !*done) co_return false;
  }
  CO_TRY_VOID(co_await quarantine_cut(call));
  CO_TRY_VOID(co_await look_at_quarantined(call));
  store_.status_.scrub_segment = 0;
  (void)co_await note_scrub(call, {});  // the next one begins with the first segment
  co_return true;
}

Task<Result<>> ObjectHome::scrub_once(Call call) {
  ScrubPass pass;
  CO_TRY_VOID(co_await scrub_pass(call, &pass, {}));
  store_.status_.scrub_passes.fetch_add(1);
  co_return Result<>{};
}

Task<Result<>> ObjectHome::scrub_spread(Call call) {
  const Position from = co_await noted_scrub(call);
  const Instant now = machine_.shard.now();
  ScrubPass pass{.spread = true, .began = now, .bytes = 0, .noted = from, .noted_at = now};
  std::uint64_t left = 0;
  for (const SegmentInfo& one : segments_->segments())
    if (one.id >= from.segment)
      left += one.size - std::min<std::uint64_t>(one.size, one.id == from.segment ? from.offset : 0);
  CO_TRY(const bool whole, co_await scrub_pass(call, &pass, from));
  if (!whole) co_return Result<>{};
  // The next one begins when this one's time is over.
  pass.noted = {};
  CO_TRY(const bool over, co_await keep_pace(call, &pass, left - std::min(left, pass.bytes), {}));
  if (over) store_.status_.scrub_passes.fetch_add(1);
  co_return Result<>{};
}

void ObjectHome::start_scrub() noexcept {
  scrub_now_ = true;
  while (!scrub_asked_.empty()) wake(scrub_asked_.front());
}

Task<> ObjectHome::scrub_loop(Call call) {
  // What opening found is named first, and what somebody mended is served again.
  for (const Damage& damage : std::exchange(found_, {})) (void)co_await quarantine_damage(call, damage);
  (void)co_await look_at_quarantined(call);
  while (!call.stopped()) {
    if (store_.status_.index_damaged) {
      if (!co_await sleep_for(call, after_failure)) co_return;
      continue;
    }
    const bool asked = std::exchange(scrub_now_, false);
    const Result<> done = co_await (asked ? scrub_once(call) : scrub_spread(call));
    if (done || call.stopped()) continue;
    scrub_now_ = scrub_now_ || (asked && store_.status_.index_damaged);  // again with the new index
    log_.warn("scrubbing failed", {{"why", done.error().context}});
    if (!co_await sleep_for(call, after_failure)) co_return;
  }
}

}  // namespace cairn::store
