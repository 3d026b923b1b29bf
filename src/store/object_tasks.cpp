// The tasks that tend a store: compaction, scrubbing, sweeping of uploads.
#include <algorithm>
#include <set>

#include "crypto/outboard.h"
#include "runtime/wait.h"
#include "store/object_home.h"
#include "store/second_look.h"

namespace cairn::store {
namespace {

constexpr std::size_t move_records_max = 256;
constexpr std::size_t move_bytes_max = 1u << 20;
constexpr std::size_t page = 256;
constexpr Duration compact_pause = Duration::seconds(1);
constexpr Duration sweep_pause = Duration::seconds(30);
constexpr Duration after_failure = Duration::seconds(10);

}  // namespace

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<std::vector<HeapBytes>>> ObjectHome::read_data(Call call, const Entry& entry) {
  const std::uint64_t from = entry.data_at();
  const std::uint32_t size = entry.header.data_size;
  CO_TRY(auto file, co_await files_->get(call, entry.at.segment));
  auto memory = std::make_shared<HeapBytes>(size);
  CO_TRY(const std::size_t got, co_await file->read_into(call, from, {memory->room(), memory}));
  memory->fill(got);
  std::vector<HeapBytes> data;
  data.push_back(std::move(*memory));
  co_return data;
}

Task<Result<>> ObjectHome::move_batch(Call call, std::vector<Mutation::Move> moves) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::relocate);
  mutation->moves = std::move(moves);
  CO_TRY_VOID(co_await submit(call, std::move(mutation)));
  co_return Result<>{};
}

// The sealed segment with the largest share of dead bytes, if it is worth the copying and goes into `room`.
std::optional<std::uint32_t> ObjectHome::pick_victim(std::uint64_t room) const {
  std::optional<std::uint32_t> best;
  double best_share = store_.status_.making_room ? 0.02 : full_ || wanted_ > 0 ? 0.05 : 0.5;
  for (const SegmentInfo& one : segments_->segments()) {
    if (!one.sealed || damaged_.contains(one.id) || one.size == 0) continue;
    const std::uint64_t live = bytes_to_copy(one.id);
    const double share = 1.0 - static_cast<double>(live) / static_cast<double>(one.size);
    if (live > room || share <= best_share) continue;
    best_share = share;
    best = one.id;
  }
  return best;
}

Task<Result<bool>> ObjectHome::compact_once(Call call) {
  // Nothing is taken away by the word of a damaged index, nor moved under the eyes of who makes a new one.
  if (store_.status_.index_damaged) co_return false;
  struct Working {
    explicit Working(ObjectHome& home) noexcept : home_(home) { home_.compacting_ = true; }
    ~Working() {
      home_.compacting_ = false;
      home_.victim_.reset();
      home_.store_.status_.making_room = false;
    }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;

   private:
    ObjectHome& home_;
  };
  const Working working(*this);
  co_return co_await compact_any(call);
}

Task<Result<bool>> ObjectHome::compact_any(Call call) {
  if (wanted_ > 0) {
    CO_TRY(const std::uint64_t there, co_await segments_->room_to_store(call));
    if (there >= wanted_) wanted_ = 0;
  }
  CO_TRY(const Log::RoomToCopy room, co_await segments_->room_to_copy(call));
  victim_ = pick_victim(room.most);
  if (!victim_) {
    wanted_ = 0;  // there is nothing to make it from
    co_return false;
  }
  co_return co_await compact_segment(call, *victim_);
}

Task<Result<bool>> ObjectHome::compact_segment(Call call, std::uint32_t segment) {
  CO_TRY(auto file, co_await files_->get(call, segment));
  CO_TRY(const std::uint64_t end, file->size());
  SegmentScan scan(machine_, file, segment, segments_->key_of(segment), 0, end);
  std::vector<Mutation::Move> moves;
  std::size_t bytes = 0;
  std::vector<Address> copies;
  std::set<std::uint64_t> moved;  // origins of what has no place in the index
  for (;;) {
    CO_TRY(auto found, co_await scan.next(call));
    if (found.damage) {
      // Nobody knows what was there: the bytes stay for whoever can tell.
      CO_TRY_VOID(co_await on_damage(call, *found.damage));
      co_return true;
    }
    if (!found.entry) break;
    Entry& entry = *found.entry;
    CO_TRY(const bool needed, co_await indexer_->is_needed(call, entry, machine_.shard.wall()));
    if (auto address = Indexer::address_of(entry)) copies.push_back(*address);
    if (!needed) continue;
    // A move that was broken off left a copy behind; both are needed, but only once.
    if (entry.header.data_size == 0 && !moved.insert(entry.header.origin).second) continue;
    Mutation::Move move;
    move.record.kind = entry.header.kind;
    move.record.origin = entry.header.origin;
    move.record.meta = entry.meta;
    move.record.reserve = true;
    if (entry.header.data_size > 0) {
      auto data = co_await read_data(call, entry);
      if (!data && data.error().code == ErrorCode::io_failed) damaged_[segment] = true;  // others come first
      if (!data) co_return fail(data.error());
      move.record.data = std::move(*data);
      if (!is_data_right(entry.header, as_bytes(entry.meta), move.record.data.front().bytes())) {
        damaged_[segment] = true;
        co_return true;  // the scrubber names and quarantines it
      }
    }
    bytes += entry.header.size();
    move.entry = std::move(entry);
    moves.push_back(std::move(move));
    if (moves.size() < move_records_max && bytes < batch_max(move_bytes_max)) continue;
    CO_TRY_VOID(co_await move_batch(call, std::exchange(moves, {})));
    bytes = 0;
  }
  if (!moves.empty()) CO_TRY_VOID(co_await move_batch(call, std::move(moves)));
  const auto live = indexer_->live().find(segment);
  if (live != indexer_->live().end() && live->second != 0)
    co_return fail(ErrorCode::internal, "a compacted segment is still pointed to");
  // An index that fell back behind this would miss what the segment had [H-4].
  const auto flushed = co_await flush_index(call);
  if (!flushed && flushed.error().code != ErrorCode::storage_full) co_return fail(flushed.error());
  if (!flushed) log_.warn("there is no room to write the index down: after a crash it is made anew");
  CO_TRY_VOID(co_await segments_->remove_segment(call, segment, flushed.has_value()));
  files_->forget(segment);
  store_.forget_segment(segment);
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::segment_gone);
  mutation->at.segment = segment;
  mutation->addresses = std::move(copies);
  CO_TRY_VOID(co_await submit(call, std::move(mutation)));
  log_.info("segment compacted", {{"segment", segment}, {"bytes", end}});
  co_return true;
}

Task<> ObjectHome::compact_loop(Call call) {
  // Without it a segment of removals alone would look as if nothing in it were needed.
  (void)co_await indexer_->count_removals(call, segments_->durable());
  while (!call.stopped()) {
    auto worked = co_await compact_once(call);
    compaction_failed_ = !worked;
    if (!worked && !call.stopped()) log_.warn("compaction failed", {{"why", worked.error().context}});
    co_await look_for_room(call);
    if (full_ && worked && !*worked) worked = co_await end_idle_upload(call);
    if (worked && *worked) continue;
    // Nothing can be compacted now: what is deleted next may change that.
    if (worked) store_.status_.making_room = false;
    if (!worked && !co_await sleep_for(call, full_ ? compact_pause : after_failure)) co_return;
    if (worked) (void)co_await ListWait(call.within(compact_pause), room_wanted_, "dead space");
  }
}

Task<Result<>> ObjectHome::quarantine_damage(Call call, Damage damage) {
  const std::vector<Damage> alone{damage};
  std::string from(1, object_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(const auto found, co_await kv_->scan(call, from, until, page));
    for (const KvPair& pair : found) {
      ObjectEntry entry;
      if (!decode(as_bytes(pair.value), entry) || entry.quarantined()) continue;
      CO_TRY(const bool hit, co_await is_hurt(call, entry, alone));
      if (hit)
        CO_TRY_VOID(
            co_await quarantine(call, address_in(pair.key), entry.origin,
                                {damage.segment, damage.lost ? 0 : static_cast<std::uint32_t>(damage.from)}));
    }
    if (found.size() < page) co_return Result<>{};
    from = found.back().key + '\0';
  }
}

Task<Result<>> ObjectHome::scrub_segment(Call call, std::uint32_t segment, std::uint64_t end) {
  CO_TRY(auto file, co_await files_->get(call, segment));
  auto scan = std::make_unique<SegmentScan>(machine_, file, segment, segments_->key_of(segment), 0, end);
  bool sure = false;  // what it says is what the disk has
  store_.status_.scrub_segment = segment;
  for (;;) {
    CO_TRY(auto found, co_await scan->next(call));
    if (found.damage && !sure && found.damage->from < found.damage->to) {
      const std::uint64_t from = found.damage->from;
      scan = std::make_unique<SegmentScan>(machine_, file, segment, segments_->key_of(segment), from, end);
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
    if (!found.entry) co_return Result<>{};
    const Entry& entry = *found.entry;
    CO_TRY_VOID(co_await scrub_pace_.take(call, entry.header.size()));
    store_.status_.scrub_bytes.fetch_add(entry.header.size(), std::memory_order_relaxed);
    if (entry.header.data_size == 0) continue;
    CO_TRY(const bool needed, co_await indexer_->is_needed(call, entry, machine_.shard.wall()));
    if (!needed) continue;
    const auto data = co_await read_data(call, entry);
    if (!data && data.error().code != ErrorCode::io_failed) co_return fail(data.error());
    if (!data) {
      // The bytes may be good the next time: named, not quarantined.
      store_.status_.damage.fetch_add(1);
      damaged_[segment] = true;
      log_.error("stored bytes cannot be read", {{"segment", segment}, {"offset", entry.at.offset}});
      continue;
    }
    if (is_data_right(entry.header, as_bytes(entry.meta), data->front().bytes())) continue;
    CO_TRY(const bool whole, co_await is_right_on_disk(call, file, entry));
    if (whole) continue;
    store_.status_.rot.fetch_add(1);
    damaged_[segment] = true;
    CO_TRY_VOID(co_await quarantine_damage(
        call, {segment, entry.at.offset, entry.at.offset + entry.header.size(), 0, 0}));
  }
}

Task<Result<bool>> ObjectHome::is_right_on_disk(
    Call call, std::shared_ptr<io::File> file,
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
    const Entry& entry) {
  if (entry.header.data_size == 0) co_return is_data_right(entry.header, as_bytes(entry.meta), {});
  const auto data = co_await read_past_cache(call, std::move(file), entry.data_at(), entry.header.data_size);
  if (!data && data.error().code == ErrorCode::io_failed) co_return false;
  if (!data) co_return fail(data.error());
  co_return is_data_right(entry.header, as_bytes(entry.meta), data->bytes());
}

// The record at a place, if all of it is there and right.
Task<Result<std::optional<Entry>>> ObjectHome::whole_record(Call call, Place place) {
  CO_TRY_VOID(co_await scrub_pace_.take(call, place.size()));
  auto file = co_await files_->get(call, place.at.segment);
  if (!file && file.error().code == ErrorCode::not_found) co_return std::optional<Entry>();
  if (!file) co_return fail(file.error());
  SegmentScan scan(machine_, *file, place.at.segment, segments_->key_of(place.at.segment), place.at.offset,
                   place.at.offset + place.size());
  scan.look_past_cache();
  CO_TRY(auto found, co_await scan.next(call));
  if (!found.entry || found.entry->header.meta_size != place.meta_size ||
      found.entry->header.data_size != place.data_size)
    co_return std::optional<Entry>();
  CO_TRY(const bool right, co_await is_right_on_disk(call, *file, *found.entry));
  co_return right ? std::move(found.entry) : std::optional<Entry>();
}

Task<Result<bool>> ObjectHome::is_whole(Call call, Address address, ObjectEntry entry) {
  CO_TRY(const auto first, co_await whole_record(call, entry.place));
  if (!first || Indexer::address_of(*first) != address) co_return false;
  if (!entry.token) co_return true;
  CommitRecord commit;
  if (!decode(as_bytes(first->meta), commit)) co_return false;
  const bool one = commit.parts.size() == 1;  // its address is not the hash of its part
  if (!one && crypto::merge_all(commit.parts, true) != address.bytes) co_return false;
  for (std::uint32_t next = 0; next < commit.parts.size();) {
    CO_TRY(const auto parts, co_await indexer_->parts(call, *entry.token, next, page));
    if (parts.empty()) co_return false;
    for (const Indexer::NumberedPart& part : parts) {
      if (part.index != next || next >= commit.parts.size()) co_return false;
      CO_TRY(const auto record, co_await whole_record(call, part.entry.place));
      PartRecord said;
      if (!record || !decode(as_bytes(record->meta), said) || said.hash != commit.parts[next])
        co_return false;
      if (one && said.root != address.bytes) co_return false;
      ++next;
    }
  }
  co_return true;
}

// What was bad may be whole again: a file that was brought back, a cable that was mended.
Task<Result<>> ObjectHome::look_at_quarantined(Call call) {
  bool lifted = false;
  std::string from(1, quarantine_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(const auto found, co_await kv_->scan(call, from, until, page));
    for (const KvPair& pair : found) {
      QuarantineRecord record;
      if (!decode(as_bytes(pair.value), record)) continue;
      CO_TRY(const auto now, co_await indexer_->object(call, record.address));
      if (!now || now->origin != record.object || !now->quarantined()) continue;
      CO_TRY(const bool whole, co_await is_whole(call, record.address, *now));
      if (!whole) continue;
      auto mutation = std::make_unique<Mutation>(Mutation::Kind::lift);
      mutation->address = record.address;
      mutation->origin = now->origin;
      CO_TRY_VOID(co_await submit(call, std::move(mutation)));
      lifted = true;
    }
    if (found.size() < page) break;
    from = found.back().key + '\0';
  }
  if (!lifted) co_return Result<>{};
  store_.status_.lossy = false;
  co_return co_await look_for_losses(call);
}

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

Task<Result<>> ObjectHome::scrub_once(Call call) {
  CO_TRY_VOID(co_await scrub_index(call));
  for (const Damage& damage : std::exchange(found_, {}))
    CO_TRY_VOID(co_await quarantine_damage(call, damage));
  const Position durable_end = segments_->end().next;
  for (const SegmentInfo& one : segments_->segments()) {
    const std::uint64_t end = one.id == durable_end.segment ? durable_end.offset : one.size;
    auto done = co_await scrub_segment(call, one.id, end);
    // Compaction may have taken it away meanwhile.
    if (!done && done.error().code != ErrorCode::not_found) co_return done;
  }
  CO_TRY_VOID(co_await look_at_quarantined(call));
  store_.status_.scrub_segment = 0;
  store_.status_.scrub_passes.fetch_add(1);
  co_return Result<>{};
}

void ObjectHome::start_scrub() noexcept {
  scrub_now_ = true;
  while (!scrub_asked_.empty()) wake(scrub_asked_.front());
}

Task<> ObjectHome::scrub_loop(Call call) {
  // What opening found is named first, the index is looked through, because every answer hangs on it, and
  // what somebody mended is served again; a whole pass waits for its time, or to be asked for.
  for (const Damage& damage : std::exchange(found_, {})) (void)co_await quarantine_damage(call, damage);
  (void)co_await scrub_index(call);
  (void)co_await look_at_quarantined(call);
  while (!call.stopped()) {
    if (!scrub_now_) (void)co_await ListWait(call.within(store_.options_.scrub_every), scrub_asked_, "scrub");
    if (call.stopped()) co_return;
    if (store_.status_.index_damaged) {
      if (!co_await sleep_for(call, after_failure)) co_return;
      continue;
    }
    scrub_now_ = false;
    if (auto done = co_await scrub_once(call); !done && !call.stopped()) {
      scrub_now_ = scrub_now_ || store_.status_.index_damaged;  // again with the new index
      log_.warn("scrubbing failed", {{"why", done.error().context}});
      if (!co_await sleep_for(call, after_failure)) co_return;
    }
  }
}

Task<Result<>> ObjectHome::sweep_once(Call call) {
  if (store_.status_.index_damaged) co_return Result<>{};
  std::string from(1, upload_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(const auto found, co_await kv_->scan(call, from, until, page));
    for (const KvPair& pair : found) {
      UploadEntry entry;
      if (!decode(as_bytes(pair.value), entry) || entry.expires > machine_.shard.wall()) continue;
      auto mutation = std::make_unique<Mutation>(Mutation::Kind::expire);
      for (std::size_t i = 1; i < 17; ++i) {
        std::uint64_t& half = i < 9 ? mutation->token.high : mutation->token.low;
        half = half << 8 | static_cast<unsigned char>(pair.key[i]);
      }
      CO_TRY_VOID(co_await submit(call, std::move(mutation)));
    }
    if (found.size() < page) co_return Result<>{};
    from = found.back().key + '\0';
  }
}

void ObjectHome::start_accepting() noexcept {
  accept_now_ = true;
  while (!accept_asked_.empty()) wake(accept_asked_.front());
}

Task<Result<>> ObjectHome::accept_losses_once(Call call) {
  std::string from(1, quarantine_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(const auto found, co_await kv_->scan(call, from, until, page));
    for (const KvPair& pair : found) {
      QuarantineRecord record;
      if (!decode(as_bytes(pair.value), record) || !is_gone(record)) continue;
      for (const Mutation::Kind kind : {Mutation::Kind::pin, Mutation::Kind::remove}) {
        auto mutation = std::make_unique<Mutation>(kind);
        mutation->address = record.address;
        auto done = co_await submit(call, std::move(mutation));
        if (!done && done.error().code != ErrorCode::not_found) co_return fail(done.error());
      }
    }
    if (found.size() < page) break;
    from = found.back().key + '\0';
  }
  CO_TRY_VOID(co_await segments_->accept_losses(call));
  store_.status_.lossy = false;
  publish_totals();
  log_.warn("what was lost is accepted, and no longer told");
  co_return Result<>{};
}

Task<> ObjectHome::sweep_loop(Call call) {
  while (!call.stopped()) {
    if (auto swept = co_await sweep_once(call); !swept && !call.stopped())
      log_.warn("sweeping of uploads failed", {{"why", swept.error().context}});
    if (std::exchange(accept_now_, false)) {
      if (auto done = co_await accept_losses_once(call); !done && !call.stopped())
        log_.warn("the loss was not accepted", {{"why", done.error().context}});
    } else {
      (void)co_await ListWait(call.within(sweep_pause), accept_asked_, "sweep");
    }
  }
}

}  // namespace cairn::store
