// The tasks that tend a store: compaction, what was lost or is whole again, sweeping of uploads.
#include <algorithm>
#include <set>

#include "crypto/outboard.h"
#include "runtime/wait.h"
#include "store/object_home.h"
#include "store/second_look.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr std::size_t move_records_max = 256;
constexpr std::size_t move_bytes_max = 1u << 20;
constexpr std::size_t page = 256;
constexpr Duration compact_pause = Duration::seconds(1);
constexpr Duration sweep_pause = Duration::seconds(30);
constexpr Duration name_pause = Duration::seconds(1);
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
  // The index writes when segments are copied and does not ask: it would only find the disk full. Earlier
  // than that the reserve is not given away, or whoever else fills the disk would have it.
  if (room.index_lacks_room) (void)co_await segments_->release_reserve(call);
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
  // An index that fell back behind this would miss what the segment had [OH-4].
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
    co_await measure_room(call);
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
  const Position at{damage.segment, damage.lost ? 0 : static_cast<std::uint32_t>(damage.from)};
  return quarantine_hurt(call, [damage](const Place& place) { return is_hit(place, {&damage, 1}); }, at);
}

Task<Result<>> ObjectHome::quarantine_cut(Call call) {
  std::map<std::uint32_t, std::uint64_t> ends;
  for (const SegmentInfo& one : segments_->segments()) {
    if (!one.sealed) continue;  // it grows while it is looked at
    auto file = co_await files_->get(call, one.id);
    if (!file && file.error().code == ErrorCode::not_found) continue;  // compaction may have taken it away
    if (!file) co_return fail(file.error());
    CO_TRY(ends[one.id], (*file)->size());
  }
  const auto is_beyond = [&ends](const Place& place) {
    const auto end = ends.find(place.at.segment);
    return end != ends.end() && place.end() > end->second;
  };
  co_return co_await quarantine_hurt(call, is_beyond, std::nullopt);
}

Task<Result<>> ObjectHome::quarantine_hurt(Call call, PlaceTest is_bad, std::optional<Position> at) {
  std::string from(1, object_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(const auto found, co_await kv_->scan(call, from, until, page));
    for (const KvPair& pair : found) {
      ObjectEntry entry;
      if (!decode(as_bytes(pair.value), entry) || entry.quarantined()) continue;
      CO_TRY(const bool hit, co_await is_hurt(call, entry, is_bad));
      if (hit)
        CO_TRY_VOID(co_await quarantine(call, address_in(pair.key), entry.origin,
                                        at.value_or(Position{entry.place.at.segment, 0})));
    }
    if (found.size() < page) co_return Result<>{};
    from = found.back().key + '\0';
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

void ObjectHome::note_lost() {
  for (const std::uint32_t segment : segments_->lost()) {
    if (!told_lost_.insert(segment).second) continue;
    log_.error("a segment was taken away under the store: what is in it is lost", {{"segment", segment}});
    vanished_.push_back({segment, 0, 0xffff'ffffu, 0, 0, false, true});
    // Readers find the same as after the next start.
    files_->forget(segment);
    store_.forget_segment(segment);
    name_now_ = true;
  }
  if (!name_now_) return;
  absent_ = segments_of_index_alone();
  publish_totals();
  while (!accept_asked_.empty()) wake(accept_asked_.front());
}

Task<Result<>> ObjectHome::name_vanished(Call call) {
  name_now_ = false;
  while (!vanished_.empty()) {
    CO_TRY_VOID(co_await quarantine_damage(call, vanished_.front()));
    vanished_.erase(vanished_.begin());
  }
  co_return Result<>{};
}

Task<Result<>> ObjectHome::look_at_files_once(Call call) {
  const std::vector<SegmentInfo> known =
      segments_->segments();  // those that are begun meanwhile are not meant
  io::Machine upkeep = machine_.for_upkeep();
  auto names = co_await upkeep.disk.list(call, store_.segment_directory());
  if (!names && names.error().code != ErrorCode::not_found) co_return fail(names.error());
  std::set<std::uint32_t> there;
  bool ours = false;
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (const auto id = parse_segment_name(name)) there.insert(*id);
    ours = ours || name == "key";
  }
  ours = ours || std::any_of(known.begin(), known.end(),
                             [&](const SegmentInfo& one) { return there.contains(one.id); });
  // Another directory is in its place, or none: it may come back, and nothing is to be written there.
  if (!ours) fence("the directory of the log is gone");
  if (!ours) co_return Result<>{};
  for (const SegmentInfo& one : known)
    if (!there.contains(one.id) && victim_ != one.id) segments_->lose(one.id);
  note_lost();
  co_return co_await name_vanished(call);
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
      log_.warn("a lost object is given up", {{"address", format_address(record.address)}});
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
    if (auto looked = co_await look_at_files_once(call); !looked && !call.stopped())
      log_.warn("the files of the log were not looked at", {{"why", looked.error().context}});
    if (std::exchange(accept_now_, false)) {
      if (auto done = co_await accept_losses_once(call); !done && !call.stopped())
        log_.warn("the loss was not accepted", {{"why", done.error().context}});
    } else {
      // What could not be named yet is tried again soon, but not at once: its directory may be gone.
      (void)co_await ListWait(call.within(name_now_ ? name_pause : sweep_pause), accept_asked_, "sweep");
    }
  }
}

}  // namespace cairn::store
