#include "store/scrubber.h"

#include <algorithm>

#include "runtime/wait.h"
#include "store/committer.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr Duration note_every = Duration::seconds(60);
constexpr Duration worth_waiting = Duration::millis(100);
constexpr Duration after_failure = Duration::seconds(10);

}  // namespace

Scrubber::Scrubber(HomeParts& parts, Committer& committer)
    : parts_(parts),
      committer_(committer),
      seats_(parts.machine.pool),
      pace_(parts.machine.shard, parts.store.options().scrub_rate, Bytes{1u << 20}),
      interval_(parts.store.options().scrub_interval) {}

Task<> Scrubber::scrub_loop(Call call) {
  // First names the objects hurt by damage that opening found, and serves objects again that were mended.
  for (const Damage& damage : std::exchange(found_, {})) (void)co_await quarantine_damage(call, damage);
  (void)co_await look_at_quarantined(call);
  while (!call.stopped()) {
    if (parts_.store.status().index_damaged) {
      if (!co_await sleep_for(call, after_failure)) co_return;
      continue;
    }
    const bool asked = std::exchange(now_, false);
    const Result<> done = co_await (asked ? scrub_once(call) : scrub_spread(call));
    if (done || call.stopped()) continue;
    now_ = now_ || (asked && parts_.store.status().index_damaged);  // again with the new index
    parts_.log.warn("scrubbing failed", {{"why", done.error().context}});
    if (!co_await sleep_for(call, after_failure)) co_return;
  }
}

void Scrubber::start_scrub() noexcept {
  now_ = true;
  while (!asked_.empty()) wake(asked_.front());
}

Task<Result<>> Scrubber::scrub_once(Call call) {
  Pass pass;
  CO_TRY_VOID(co_await scrub_pass(call, &pass, {}));
  parts_.store.status().scrub_passes.fetch_add(1);
  co_return Result<>{};
}

Task<Result<>> Scrubber::scrub_spread(Call call) {
  const Position from = co_await noted_scrub(call);
  const Instant now = parts_.machine.shard.now();
  Pass pass{.spread = true, .began = now, .bytes = 0, .noted = from, .noted_at = now};
  std::uint64_t left = 0;
  for (const SegmentInfo& one : parts_.segments->segments())
    if (one.id >= from.segment)
      left += one.size - std::min<std::uint64_t>(one.size, one.id == from.segment ? from.offset : 0);
  CO_TRY(const bool whole, co_await scrub_pass(call, &pass, from));
  if (!whole) co_return Result<>{};
  // The next pass begins when this one's time is over.
  pass.noted = {};
  CO_TRY(const bool over, co_await keep_pace(call, &pass, left - std::min(left, pass.bytes), {}));
  if (over) parts_.store.status().scrub_passes.fetch_add(1);
  co_return Result<>{};
}

Task<Result<bool>> Scrubber::scrub_pass(Call call, Pass* pass, Position from) {
  CO_TRY_VOID(co_await scrub_index(call));
  for (const Damage& damage : std::exchange(found_, {}))
    CO_TRY_VOID(co_await quarantine_damage(call, damage));
  const Position durable_end = parts_.segments->end().next;
  for (const SegmentInfo& one : parts_.segments->segments()) {
    const std::uint64_t begin = one.id == from.segment ? from.offset : 0;
    const std::uint64_t end = one.id == durable_end.segment ? durable_end.offset : one.size;
    if (one.id < from.segment || begin >= end) continue;
    auto done = co_await scrub_segment(call, pass, one.id, begin, end);
    // Compaction may have taken the segment away meanwhile.
    if (!done && done.error().code != ErrorCode::not_found) co_return fail(done.error());
    if (done && !*done) co_return false;
  }
  CO_TRY_VOID(co_await quarantine_cut(call));
  CO_TRY_VOID(co_await look_at_quarantined(call));
  parts_.store.status().scrub_segment = 0;
  (void)co_await note_scrub(call, {});  // the next one begins with the first segment
  co_return true;
}

Task<Result<>> Scrubber::scrub_index(Call call) {
  std::string from;
  do {
    CO_TRY(KvVerified some, co_await parts_.kv->verify(call, std::move(from)));
    parts_.store.status().scrub_bytes.fetch_add(some.bytes, std::memory_order_relaxed);
    CO_TRY_VOID(co_await pace_.take(call, some.bytes));
    from = std::move(some.next);
  } while (!from.empty());
  co_return Result<>{};
}

Task<Result<bool>> Scrubber::scrub_segment(Call call, Pass* pass, std::uint32_t segment, std::uint64_t from,
                                           std::uint64_t end) {
  CO_TRY(auto file, co_await parts_.files->get(call, segment));
  auto scan = std::make_unique<SegmentScan>(parts_.machine, file, segment, parts_.segments->key_of(segment),
                                            from, end);
  bool sure = false;  // its bytes are those that the disk has
  parts_.store.status().scrub_segment = segment;
  for (;;) {
    CO_TRY(auto found, co_await scan->next(call));
    if (found.damage && !sure && found.damage->from < found.damage->to) {
      const std::uint64_t bad = found.damage->from;
      scan = std::make_unique<SegmentScan>(parts_.machine, file, segment, parts_.segments->key_of(segment),
                                           bad, end);
      scan->look_past_cache();
      sure = true;
      continue;
    }
    if (found.damage) {
      note_damage(*found.damage);
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

Task<Result<>> Scrubber::scrub_record(
    Call call, std::shared_ptr<io::File> file,
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
    const Entry& entry) {
  CO_TRY_VOID(co_await pace_.take(call, entry.header.size()));
  parts_.store.status().scrub_bytes.fetch_add(entry.header.size(), std::memory_order_relaxed);
  if (entry.header.data_size == 0) co_return Result<>{};
  CO_TRY(const bool needed, co_await parts_.indexer->is_needed(call, entry, parts_.machine.shard.wall()));
  if (!needed) co_return Result<>{};
  const auto data = co_await parts_.read_data(call, entry);
  if (!data && data.error().code != ErrorCode::io_failed) co_return fail(data.error());
  if (!data) {
    // The bytes may be good the next time: the damage is reported, and nothing is quarantined.
    parts_.store.status().damage.fetch_add(1);
    parts_.damaged[entry.at.segment] = true;
    parts_.log.error("stored bytes cannot be read",
                     {{"segment", entry.at.segment}, {"offset", entry.at.offset}});
    co_return Result<>{};
  }
  if (is_data_right(entry.header, as_bytes(entry.meta), data->front().bytes())) co_return Result<>{};
  CO_TRY(const bool whole, co_await is_right_on_disk(call, std::move(file), entry));
  if (whole) co_return Result<>{};
  parts_.store.status().rot.fetch_add(1);
  parts_.damaged[entry.at.segment] = true;
  co_return co_await quarantine_damage(
      call, {entry.at.segment, entry.at.offset, entry.at.offset + entry.header.size(), 0, 0});
}

// Waits out these bytes' share of the interval. How fast they may be read is limited elsewhere. False: a
// whole pass was asked for, now. `next`: where this pass would go on.
Task<Result<bool>> Scrubber::keep_pace(Call call, Pass* pass, std::uint64_t bytes, Position next) {
  pass->bytes += bytes;
  while (pass->spread) {
    if (now_) co_return false;
    if (next != pass->noted && parts_.machine.shard.now() - pass->noted_at >= note_every) {
      // If the place cannot be noted, the next start looks at more again.
      (void)co_await note_scrub(call, next);
      pass->noted = next;
      pass->noted_at = parts_.machine.shard.now();
    }
    const double share = static_cast<double>(pass->bytes) /
                         static_cast<double>(std::max<std::uint64_t>(parts_.segments->size().bytes, 1));
    const auto span = static_cast<std::int64_t>(static_cast<double>(interval_.ns) * std::min(share, 1.0));
    const Duration rest = pass->began + Duration{span} - parts_.machine.shard.now();
    if (rest < worth_waiting) break;
    (void)co_await ListWait(call.within(std::min(rest, note_every)), asked_, "scrub");
    if (call.stopped()) co_return fail(ErrorCode::cancelled, "the scrubber was stopped");
  }
  co_return true;
}

// Not synced: with an older note, or none, the scrubber only looks again at bytes it has seen.
Task<Result<>> Scrubber::note_scrub(Call call, Position next) {
  const io::Machine upkeep = parts_.machine.for_upkeep();
  const std::string path = parts_.store.options().directory + "/scrub";
  auto file = co_await upkeep.disk.open(call, path, io::OpenMode::write);
  if (!file && file.error().code == ErrorCode::not_found)
    file = co_await upkeep.disk.open(call, path, io::OpenMode::create_new);
  if (!file) co_return fail(file.error());
  std::vector<HeapBytes> blocks;
  blocks.push_back(encode_scrub_note(next));
  co_return co_await (*file)->write_blocks(call, 0, std::move(blocks), io::Sync::no);
}

Task<Position> Scrubber::noted_scrub(Call call) {
  const io::Machine upkeep = parts_.machine.for_upkeep();
  const auto file =
      co_await upkeep.disk.open(call, parts_.store.options().directory + "/scrub", io::OpenMode::read);
  if (!file) co_return Position{};
  auto bytes = std::make_shared<HeapBytes>(head_size);
  const auto got = co_await (*file)->read_into(call, 0, {bytes->room(), bytes});
  if (!got) co_return Position{};
  bytes->fill(*got);
  Position noted;
  co_return decode_scrub_note(std::as_const(*bytes).bytes(), noted) == HeadState::good ? noted : Position{};
}

}  // namespace cairn::store
