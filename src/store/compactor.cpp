#include "store/compactor.h"

#include <algorithm>
#include <set>

#include "runtime/wait.h"
#include "store/committer.h"
#include "store/scrubber.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr std::size_t move_records_max = 256;
constexpr std::size_t move_bytes_max = 1u << 20;
constexpr Duration compact_pause = Duration::seconds(1);
constexpr Duration after_failure = Duration::seconds(10);
// The room that an index needs to write the list of its tables when it is opened.
constexpr std::uint64_t opening_room = 1u << 20;

}  // namespace

Compactor::Compactor(HomeParts& parts, Committer& committer, Scrubber& scrubber)
    : parts_(parts),
      committer_(committer),
      scrubber_(scrubber),
      seats_(parts.machine.pool),
      opening_(parts.machine, parts.store.options().directory,
               parts.store.options().reserve > 0 ? opening_room : 0, 0, opening_name) {}

Task<> Compactor::compact_loop(Call call) {
  // Without the count a segment of removals alone would look as if nothing in it were needed.
  (void)co_await parts_.indexer->count_removals(call, parts_.segments->durable());
  while (!call.stopped()) {
    auto worked = co_await compact_once(call);
    failed_ = !worked;
    if (!worked && !call.stopped()) parts_.log.warn("compaction failed", {{"why", worked.error().context}});
    co_await measure_room(call);
    co_await look_for_room(call);
    if (full_ && worked && !*worked) worked = co_await committer_.end_idle_upload(call);
    if (worked && *worked) continue;
    // Nothing can be compacted now; later deletes may change that.
    if (worked) parts_.store.status().making_room = false;
    if (!worked && !co_await sleep_for(call, full_ ? compact_pause : after_failure)) co_return;
    if (worked) (void)co_await ListWait(call.within(compact_pause), room_wanted_, "dead space");
  }
}

Task<Result<bool>> Compactor::compact_once(Call call) {
  // While the index is damaged no segment is taken away by its word, and no record moves while a new one is
  // made.
  if (parts_.store.status().index_damaged) co_return false;
  struct Working {
    explicit Working(Compactor& compactor) noexcept : compactor_(compactor) { compactor_.compacting_ = true; }
    ~Working() {
      compactor_.compacting_ = false;
      compactor_.victim_.reset();
      compactor_.parts_.store.status().making_room = false;
    }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;

   private:
    Compactor& compactor_;
  };
  const Working working(*this);
  co_return co_await compact_any(call);
}

Task<Result<bool>> Compactor::compact_any(Call call) {
  if (wanted_ > 0) {
    CO_TRY(const std::uint64_t there, co_await parts_.segments->room_to_store(call));
    if (there >= wanted_) wanted_ = 0;
  }
  CO_TRY(const Log::RoomToCopy room, co_await parts_.segments->room_to_copy(call));
  victim_ = pick_victim(room.most);
  if (!victim_) {
    wanted_ = 0;  // there is nothing to make it from
    co_return false;
  }
  // The index writes when segments are copied and does not ask first: it would only find the disk full. The
  // reserve is not given away before that, or other users of the disk would take its space.
  if (room.index_lacks_room) (void)co_await parts_.segments->release_reserve(call);
  co_return co_await compact_segment(call, *victim_);
}

// The sealed segment with the largest share of dead bytes, if it is worth the copying and goes into `room`.
std::optional<std::uint32_t> Compactor::pick_victim(std::uint64_t room) const {
  std::optional<std::uint32_t> best;
  double best_share = parts_.store.status().making_room ? 0.02 : full_ || wanted_ > 0 ? 0.05 : 0.5;
  for (const SegmentInfo& one : parts_.segments->segments()) {
    if (!one.sealed || parts_.damaged.contains(one.id) || one.size == 0) continue;
    const std::uint64_t live = parts_.bytes_to_copy(one.id);
    const double share = 1.0 - static_cast<double>(live) / static_cast<double>(one.size);
    if (live > room || share <= best_share) continue;
    best_share = share;
    best = one.id;
  }
  return best;
}

Task<Result<bool>> Compactor::compact_segment(Call call, std::uint32_t segment) {
  CO_TRY(auto file, co_await parts_.files->get(call, segment));
  CO_TRY(const std::uint64_t end, file->size());
  SegmentScan scan(parts_.machine, file, segment, parts_.segments->key_of(segment), 0, end);
  std::vector<Mutation::Move> moves;
  std::size_t bytes = 0;
  std::vector<Address> copies;
  std::set<std::uint64_t> moved;  // origins of records that the index has no place for
  for (;;) {
    CO_TRY(auto found, co_await scan.next(call));
    if (found.damage) {
      // It is not known what was there: the bytes stay in case they can be read another way.
      scrubber_.note_damage(*found.damage);
      co_return true;
    }
    if (!found.entry) break;
    Entry& entry = *found.entry;
    CO_TRY(const bool needed, co_await parts_.indexer->is_needed(call, entry, parts_.machine.shard.wall()));
    if (auto address = Indexer::address_of(entry)) copies.push_back(*address);
    if (!needed) continue;
    // A move that was broken off left a copy behind: both count as needed, but only one is moved.
    if (entry.header.data_size == 0 && !moved.insert(entry.header.origin).second) continue;
    Mutation::Move move;
    move.record.kind = entry.header.kind;
    move.record.origin = entry.header.origin;
    move.record.meta = entry.meta;
    move.record.reserve = true;
    if (entry.header.data_size > 0) {
      auto data = co_await parts_.read_data(call, entry);
      if (!data && data.error().code == ErrorCode::io_failed)
        parts_.damaged[segment] = true;  // others come first
      if (!data) co_return fail(data.error());
      move.record.data = std::move(*data);
      if (!is_data_right(entry.header, as_bytes(entry.meta), move.record.data.front().bytes())) {
        parts_.damaged[segment] = true;
        co_return true;  // the scrubber names and quarantines it
      }
    }
    bytes += entry.header.size();
    move.entry = std::move(entry);
    moves.push_back(std::move(move));
    if (moves.size() < move_records_max && bytes < parts_.batch_max(move_bytes_max)) continue;
    CO_TRY_VOID(co_await move_batch(call, std::exchange(moves, {})));
    bytes = 0;
  }
  if (!moves.empty()) CO_TRY_VOID(co_await move_batch(call, std::move(moves)));
  const auto live = parts_.indexer->live().find(segment);
  if (live != parts_.indexer->live().end() && live->second != 0)
    co_return fail(ErrorCode::internal, "a compacted segment is still pointed to");
  // An index that falls back behind this point would miss the records of the segment [OH-4].
  const auto flushed = co_await parts_.flush_index(call);
  if (!flushed && flushed.error().code != ErrorCode::storage_full) co_return fail(flushed.error());
  if (!flushed) parts_.log.warn("there is no room to write the index down: after a crash it is made anew");
  CO_TRY_VOID(co_await parts_.segments->remove_segment(call, segment, flushed.has_value()));
  parts_.files->forget(segment);
  parts_.store.forget_segment(segment);
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::segment_gone);
  mutation->at.segment = segment;
  mutation->addresses = std::move(copies);
  CO_TRY_VOID(co_await committer_.submit(call, std::move(mutation)));
  parts_.log.info("segment compacted", {{"segment", segment}, {"bytes", end}});
  co_return true;
}

Task<Result<>> Compactor::move_batch(Call call, std::vector<Mutation::Move> moves) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::relocate);
  mutation->moves = std::move(moves);
  CO_TRY_VOID(co_await committer_.submit(call, std::move(mutation)));
  co_return Result<>{};
}

}  // namespace cairn::store
