// Which uploads may begin, and which give way to them when places or room are short.
#include <algorithm>

#include "store/object_group.h"

namespace cairn::store {
namespace {

// Of a part's record beside its bytes: the header and the hashes of its groups.
constexpr std::uint64_t overhead_share = 1024;

Record record_of(RecordKind kind, std::string meta, bool reserve) {
  Record record;
  record.kind = static_cast<std::uint8_t>(kind);
  record.meta = std::move(meta);
  record.reserve = reserve;
  return record;
}

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
    if (!damaged_.contains(one.id)) room.dead += one.size - std::min(one.size, bytes_to_copy(one.id));
  co_return room;
}

std::vector<Ulid> ObjectHome::idle_uploads() const {
  std::vector<std::pair<Instant, Ulid>> idle;
  const Instant now = machine_.shard.now();
  for (const auto& [token, open] : indexer_->open_uploads()) {
    const Instant last = std::max(open.last_part, opened_);
    if (last + store_.options_.upload_idle <= now) idle.emplace_back(last, token);
  }
  std::sort(idle.begin(), idle.end());
  std::vector<Ulid> tokens;
  for (const auto& [last, token] : idle) tokens.push_back(token);
  return tokens;
}

// The table is of at most uploads_max: it is looked through for every upload that begins.
ObjectHome::Slot ObjectHome::find_slot(const Ulid& holder, const Group& group) const {
  const auto& open = indexer_->open_uploads();
  const std::uint64_t most = store_.options_.uploads_max;
  const std::uint64_t all = indexer_->totals().uploads + group.begun - group.ended;
  const auto is_own = [&](const auto& one) { return one.second.holder == holder; };
  const auto own = static_cast<std::uint64_t>(std::count_if(open.begin(), open.end(), is_own));
  // Half of what the others leave: nobody takes the last ones from everybody. Uploads of nobody (open access,
  // or from before it was kept) are counted together, and have only the bound of all.
  const bool counted = holder != Ulid{};
  const auto allows = [&](std::uint64_t in_all) {
    return in_all < most && (!counted || own < (most - (in_all - own) + 1) / 2);
  };
  if (allows(all)) return {.there = true};
  std::optional<Ulid> others;
  for (const Ulid& token : idle_uploads()) {
    if (group.touched.contains({{}, token})) continue;
    if (is_own(*open.find(token))) return {.there = true, .ends = token};
    if (!others) others = token;
  }
  if (all >= most && others && allows(all - 1)) return {.there = true, .ends = others};
  return {};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<>> ObjectHome::end_upload(Call call, Ulid token, Group& group) {
  CO_TRY(const auto began, co_await indexer_->upload(call, token));
  if (!began) co_return Result<>{};
  group.add(record_of(RecordKind::abort, encode(AbortRecord{token, began->expires}), true));
  log_.info("an idle upload gives way", {{"upload", format_ulid(token)}});
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_begin(Call call, Mutation& mutation, Group& group) {
  const Ulid token = mutation.token, holder = mutation.owner.holder;
  if (group.is_taken({{}, token}, Group::Touch::alone)) co_return Planned::deferred;
  // One of a holder in each group: the table knows of the one before.
  if (holder != Ulid{} && group.is_taken({{}, holder}, Group::Touch::alone)) co_return Planned::deferred;
  const Slot slot = find_slot(holder, group);
  if (!slot.there) co_return fail(ErrorCode::busy, "too many open uploads");
  if (mutation.size > 0) {
    CO_TRY(const Room room, co_await room_for(call, mutation.size));
    if (!room.enough())
      co_return fail(ErrorCode::storage_full, "there is no room for an upload of this size");
    if (room.needed > room.there) {
      wanted_ = std::max(wanted_, room.needed);
      want_room();
    }
  }
  if (slot.ends) {
    CO_TRY_VOID(co_await end_upload(call, *slot.ends, group));
    (void)group.is_taken({{}, *slot.ends}, Group::Touch::alone);
    ++group.ended;
  }
  ++group.begun;
  mutation.result = Outcome{
      .address = {}, .size = mutation.size, .existed = false, .token = token, .expires = mutation.expires};
  const UploadRecord record{token, mutation.size, mutation.expires, mutation.media_type, mutation.owner};
  group.add(record_of(RecordKind::upload, encode(record), false));
  co_return Planned::joined;
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
    const std::uint64_t bytes = indexer_->open_uploads().at(token).bytes;
    if (bytes == 0) continue;
    room.dead += bytes;
    ended.push_back(token);
  }
  if (ended.empty() || !room.enough()) co_return Planned::answered;
  for (const Ulid& token : ended) {
    mutation.result->size += indexer_->open_uploads().at(token).bytes;
    CO_TRY_VOID(co_await end_upload(call, token, group));
  }
  co_return group.records.empty() ? Planned::answered : Planned::joined;
}

Task<Result<bool>> ObjectHome::end_idle_upload(Call call) {
  if (store_.status_.index_damaged) co_return false;
  const std::vector<Ulid> idle = idle_uploads();
  const auto holds = [&](const Ulid& token) { return indexer_->open_uploads().at(token).bytes > 0; };
  if (std::none_of(idle.begin(), idle.end(), holds)) co_return false;
  CO_TRY(const Outcome ended, co_await submit(call, std::make_unique<Mutation>(Mutation::Kind::end_idle)));
  co_return ended.size > 0;
}

}  // namespace cairn::store
