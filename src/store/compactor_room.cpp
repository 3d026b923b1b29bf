// Measures whether the disk is full, and how much room the compactor is to make.
#include <algorithm>

#include "store/compactor.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr std::uint64_t worth_ending = 1u << 20;  // of dead bytes
// The room that deletes may take while copying needs the rest.
constexpr std::uint64_t deletes_at_once = 256u << 10;

}  // namespace

Task<> Compactor::open(Call call) {
  if (parts_.store.index()->engine->room() > 0) (void)co_await opening_.open(call);
  if (!co_await parts_.segments->has_room(call)) note_full();
}

void Compactor::note_full() {
  if (full_) return;
  full_ = true;
  parts_.store.status().full = true;
  if (auto held = full_told_.due(parts_.machine.shard.now()))
    parts_.log.warn("the disk is full: nothing more is stored until there is room", {{"suppressed", *held}});
  want_room();
}

void Compactor::want_room(std::uint64_t bytes) noexcept {
  wanted_ = std::max(wanted_, bytes);
  while (!room_wanted_.empty()) wake(room_wanted_.front());
}

// Sees changes on the disk by other programs before a write meets them.
Task<> Compactor::measure_room(Call call) {
  const auto room = co_await parts_.segments->room_to_store(call);
  if (!room) co_return;
  parts_.store.status().room_bytes = *room;
  if (*room == 0) note_full();
}

Task<> Compactor::look_for_room(Call call) {
  if (!full_) co_return;
  StoreStatus& status = parts_.store.status();
  if (!co_await parts_.segments->has_room(call)) {
    const auto room = co_await parts_.segments->room_to_copy(call);
    const std::uint64_t to_copy =
        victim_ ? parts_.bytes_to_copy(*victim_) : parts_.segments->segment_length();
    const bool at_work = compacting_ || failed_ || !room_wanted_.empty();
    status.making_room = at_work && room && room->safe < to_copy + deletes_at_once;
    co_return want_room();
  }
  if (parts_.store.index()->engine->room() > 0) (void)co_await opening_.ensure(call);
  full_ = false;
  status.full = false;
  status.making_room = false;
}

Task<> Compactor::end_dead_segment(Call call) {
  if (!full_) co_return;
  const SegmentInfo current = parts_.segments->segments().back();
  const std::uint64_t live = parts_.bytes_to_copy(current.id);
  const std::uint64_t dead = current.size - std::min(current.size, live);
  if (dead <= current.size / 2 || dead <= std::min(worth_ending, parts_.store.options().segment_size / 16))
    co_return;
  const auto room = co_await parts_.segments->room_to_copy(call);
  if (!room || room->most < live + segment_header_size) co_return;
  if (!co_await parts_.segments->roll(call) && parts_.segments->fenced())
    parts_.fence("a segment could not be begun");
}

}  // namespace cairn::store
