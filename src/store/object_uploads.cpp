// Which open uploads give way when room is short, and whether one that says its size may begin.
#include <algorithm>

#include "store/object_group.h"

namespace cairn::store {
namespace {

// Of a part's record beside its bytes: the header and the hashes of its groups.
constexpr std::uint64_t overhead_share = 1024;

}  // namespace

void ObjectHome::note_uploads(const Group& group) noexcept {
  for (const Mutation* member : group.members) {
    if (member->kind == Mutation::Kind::begin) indexer_->touch_upload(member->token, machine_.shard.now());
    if (member->kind == Mutation::Kind::part)
      indexer_->touch_upload(member->part.token, machine_.shard.now());
  }
}

Task<Result<ObjectHome::Room>> ObjectHome::room_for(Call call, std::uint64_t size) {
  Room room{.needed = size + size / overhead_share};
  CO_TRY(room.there, co_await segments_->room_to_store(call));
  for (const SegmentInfo& one : segments_->segments())
    if (!damaged_.contains(one.id)) room.dead += one.size - std::min(one.size, live_bytes(one.id));
  co_return room;
}

std::vector<Ulid> ObjectHome::idle_uploads() const {
  std::vector<std::pair<Instant, Ulid>> idle;
  const Instant now = machine_.shard.now();
  for (const auto& [token, open] : indexer_->open_uploads()) {
    const Instant last = std::max(open.last_part, opened_);
    if (open.bytes > 0 && last + store_.options_.upload_idle <= now) idle.emplace_back(last, token);
  }
  std::sort(idle.begin(), idle.end());
  std::vector<Ulid> tokens;
  for (const auto& [last, token] : idle) tokens.push_back(token);
  return tokens;
}

// Ends none when all of them together would not be enough.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_end_idle(Call call, Mutation& mutation, Group& group) {
  if (!group.members.empty()) co_return Planned::deferred;
  group.closed = true;
  mutation.result = Outcome{};
  CO_TRY(Room room, co_await room_for(call, mutation.size));
  std::vector<Ulid> ended;
  for (const Ulid& token : idle_uploads()) {
    if (mutation.size == 0 ? !ended.empty() : room.enough()) break;
    if (ended.size() == Group::records_most) break;
    room.dead += indexer_->open_uploads().at(token).bytes;
    ended.push_back(token);
  }
  if (ended.empty() || !room.enough()) co_return Planned::answered;
  for (const Ulid& token : ended) {
    CO_TRY(const auto began, co_await indexer_->upload(call, token));
    if (!began) continue;
    Record record;
    record.kind = static_cast<std::uint8_t>(RecordKind::abort);
    record.meta = encode(AbortRecord{token, began->expires});
    record.reserve = true;
    group.add(std::move(record));
    mutation.result->size += indexer_->open_uploads().at(token).bytes;
    log_.info("an idle upload gives way", {{"upload", format_ulid(token)}});
  }
  co_return group.records.empty() ? Planned::answered : Planned::joined;
}

Task<Result<bool>> ObjectHome::end_idle_upload(Call call) {
  if (store_.status_.index_damaged || idle_uploads().empty()) co_return false;
  CO_TRY(const Outcome ended, co_await submit(call, std::make_unique<Mutation>(Mutation::Kind::end_idle)));
  co_return ended.size > 0;
}

}  // namespace cairn::store
