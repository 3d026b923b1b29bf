// Uploads: which may begin, what parts and commits need, and which give way when places or room are short.
#include <algorithm>

#include "crypto/outboard.h"
#include "store/committer.h"
#include "store/compactor.h"

namespace cairn::store {
namespace {

// Of a part's record beside its bytes: the header and the hashes of its groups.
constexpr std::uint64_t overhead_share = 1024;

}  // namespace

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_begin(Call call, Mutation& mutation, ChangeGroup& group) {
  const Ulid token = mutation.token, holder = mutation.owner.holder;
  if (group.is_taken({{}, token}, ChangeGroup::Touch::alone)) co_return Planned::deferred;
  // One of a holder in each group: the table knows of the one before.
  if (holder != Ulid{} && group.is_taken({{}, holder}, ChangeGroup::Touch::alone))
    co_return Planned::deferred;
  const Slot slot = find_slot(holder, group);
  if (!slot.there) co_return fail(ErrorCode::busy, "too many open uploads");
  if (mutation.size > 0) {
    CO_TRY(const Room room, co_await room_for(call, mutation.size));
    if (!room.enough())
      co_return fail(ErrorCode::storage_full, "there is no room for an upload of this size");
    if (room.needed > room.there) {
      compactor_.want_room(room.needed);
    }
  }
  if (slot.ends) {
    CO_TRY_VOID(co_await end_upload(call, *slot.ends, group));
    (void)group.is_taken({{}, *slot.ends}, ChangeGroup::Touch::alone);
    ++group.ended;
  }
  ++group.begun;
  mutation.result = Outcome{
      .address = {}, .size = mutation.size, .existed = false, .token = token, .expires = mutation.expires};
  const UploadRecord record{token, mutation.size, mutation.expires, mutation.media_type, mutation.owner};
  group.add(control(RecordKind::upload, record, false));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_part(Call call, Mutation& mutation, ChangeGroup& group) {
  const Ulid token = mutation.part.token;
  if (group.is_taken(subject_of(token), ChangeGroup::Touch::part)) co_return Planned::deferred;
  CO_TRY(const auto began, co_await parts_.indexer->upload(call, token));
  if (!began || began->committed || began->expires <= parts_.machine.shard.wall())
    co_return fail(ErrorCode::not_found, "no such upload", Side::client);
  std::uint64_t size = 0;
  for (const HeapBytes& block : mutation.record.data) size += block.size();
  const std::uint64_t end = std::uint64_t{mutation.part.index} * crypto::part_size + size;
  // The record of the commit holds a hash for each part, and must fit too.
  const std::uint64_t most = parts_.batch_max(record_meta_max) / sizeof(crypto::Hash) * crypto::part_size;
  if (end > std::min(largest_object, most) || (began->size != 0 && end > began->size))
    co_return fail(ErrorCode::body_cap, "the part reaches beyond the upload's size", Side::client);
  mutation.result =
      Outcome{.address = {}, .size = end, .existed = false, .token = token, .expires = began->expires};
  CO_TRY(const auto now, co_await parts_.indexer->part(call, token, mutation.part.index));
  if (now && now->hash == mutation.part.hash && now->place.data_size == size) {
    mutation.result->existed = true;
    parts_.indexer->touch_upload(token, parts_.machine.shard.now());
    co_return Planned::answered;
  }
  group.add(std::move(mutation.record));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_commit(Call call, Mutation& mutation, ChangeGroup& group) {
  const Ulid token = mutation.token;
  if (!group.members.empty()) co_return Planned::deferred;  // it may be large: a group of its own
  CO_TRY(const auto began, co_await parts_.indexer->upload(call, token));
  if (!began || (!began->committed && began->expires <= parts_.machine.shard.wall()))
    co_return fail(ErrorCode::not_found, "no such upload", Side::client);
  CommitRecord record;
  if (began->committed) {
    CO_TRY(const auto made, co_await parts_.indexer->object(call, *began->committed));
    if (!made) co_return fail(ErrorCode::not_found, "no such upload", Side::client);
    if (mutation.address && *mutation.address != *began->committed)
      co_return fail(ErrorCode::conflict, "the bytes have another address", Side::client);
    mutation.result = Outcome{
        .address = *began->committed, .size = made->size, .existed = true, .token = token, .expires = {}};
    co_return Planned::answered;
  }
  crypto::Hash alone{};
  for (;;) {
    const auto first = static_cast<std::uint32_t>(record.parts.size());
    CO_TRY(const auto found, co_await parts_.indexer->parts(call, token, first, 512));
    if (found.empty()) break;
    for (const Indexer::NumberedPart& one : found) {
      // Every part but the last is whole, and none is missing.
      if (one.index != record.parts.size() || record.size % crypto::part_size != 0)
        co_return fail(ErrorCode::upload_gap, "a part is missing", Side::client);
      if (one.index == 0) alone = one.entry.root;
      record.parts.push_back(one.entry.hash);
      record.size += one.entry.place.data_size;
    }
  }
  if (record.parts.empty()) co_return fail(ErrorCode::upload_gap, "nothing was sent", Side::client);
  if (began->size != 0 && record.size != began->size)
    co_return fail(ErrorCode::upload_gap, "the last part is missing", Side::client);
  record.address.bytes = record.parts.size() == 1 ? alone : crypto::merge_all(record.parts, true);
  if (mutation.address && *mutation.address != record.address)
    co_return fail(ErrorCode::conflict, "the bytes have another address", Side::client);
  record.token = token;
  record.media_type = mutation.media_type.empty() ? began->media_type : mutation.media_type;
  group.closed = true;
  CO_TRY(const auto now, co_await parts_.indexer->object(call, record.address));
  const bool existed = now && !now->quarantined();
  mutation.result = Outcome{
      .address = record.address, .size = record.size, .existed = existed, .token = token, .expires = {}};
  if (existed) {
    group.add(control(RecordKind::abort, AbortRecord{token, began->expires}, false));
    co_return Planned::joined;
  }
  record.pinned = now && now->pinned;
  group.add(control(RecordKind::commit, record, false));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_abort(Call call, Mutation& mutation, ChangeGroup& group) {
  const Ulid token = mutation.token;
  if (group.is_taken(subject_of(token), ChangeGroup::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto began, co_await parts_.indexer->upload(call, token));
  const bool over = began && began->expires <= parts_.machine.shard.wall();
  mutation.result = Outcome{.address = {}, .size = 0, .existed = false, .token = token, .expires = {}};
  if (mutation.kind == Mutation::Kind::expire) {
    if (!over) co_return Planned::answered;
    if (began->committed) {
      group.forgotten.push_back(token);
      co_return Planned::joined;
    }
  } else if (!began || began->committed || over) {
    co_return fail(ErrorCode::not_found, "no such upload", Side::client);
  }
  group.add(control(RecordKind::abort, AbortRecord{token, began->expires}, true));
  co_return Planned::joined;
}

// Ends none when all of them together would not be enough.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_end_idle(Call call, Mutation& mutation, ChangeGroup& group) {
  if (!group.members.empty()) co_return Planned::deferred;
  group.closed = true;
  mutation.result = Outcome{};
  CO_TRY(Room room, co_await room_for(call, mutation.size));
  std::vector<Ulid> ended;
  for (const Ulid& token : idle_uploads()) {
    if (mutation.size == 0 ? !ended.empty() : room.enough()) break;
    if (ended.size() == ChangeGroup::records_most) break;
    const std::uint64_t bytes = parts_.indexer->open_uploads().at(token).bytes;
    if (bytes == 0) continue;
    room.dead += bytes;
    ended.push_back(token);
  }
  if (ended.empty() || !room.enough()) co_return Planned::answered;
  for (const Ulid& token : ended) {
    mutation.result->size += parts_.indexer->open_uploads().at(token).bytes;
    CO_TRY_VOID(co_await end_upload(call, token, group));
  }
  co_return group.records.empty() ? Planned::answered : Planned::joined;
}

Task<Result<bool>> Committer::end_idle_upload(Call call) {
  if (parts_.store.status().index_damaged) co_return false;
  const std::vector<Ulid> idle = idle_uploads();
  const auto holds = [&](const Ulid& token) { return parts_.indexer->open_uploads().at(token).bytes > 0; };
  if (std::none_of(idle.begin(), idle.end(), holds)) co_return false;
  CO_TRY(const Outcome ended, co_await submit(call, std::make_unique<Mutation>(Mutation::Kind::end_idle)));
  co_return ended.size > 0;
}

void Committer::note_uploads(const ChangeGroup& group) noexcept {
  for (const Mutation* member : group.members) {
    if (member->kind == Mutation::Kind::begin)
      parts_.indexer->touch_upload(member->token, parts_.machine.shard.now());
    if (member->kind == Mutation::Kind::part)
      parts_.indexer->touch_upload(member->part.token, parts_.machine.shard.now());
  }
}

Task<Result<Committer::Room>> Committer::room_for(Call call, std::uint64_t size) {
  Room room{.needed = size + size / overhead_share};
  CO_TRY(room.there, co_await parts_.segments->room_to_store(call));
  for (const SegmentInfo& one : parts_.segments->segments())
    if (!parts_.damaged.contains(one.id))
      room.dead += one.size - std::min(one.size, parts_.bytes_to_copy(one.id));
  co_return room;
}

std::vector<Ulid> Committer::idle_uploads() const {
  std::vector<std::pair<Instant, Ulid>> idle;
  const Instant now = parts_.machine.shard.now();
  for (const auto& [token, open] : parts_.indexer->open_uploads()) {
    const Instant last = std::max(open.last_part, parts_.opened);
    if (last + parts_.store.options().upload_idle <= now) idle.emplace_back(last, token);
  }
  std::sort(idle.begin(), idle.end());
  std::vector<Ulid> tokens;
  for (const auto& [last, token] : idle) tokens.push_back(token);
  return tokens;
}

// The table is of at most uploads_max: it is looked through for every upload that begins.
Committer::Slot Committer::find_slot(const Ulid& holder, const ChangeGroup& group) const {
  const auto& open = parts_.indexer->open_uploads();
  const std::uint64_t most = parts_.store.options().uploads_max;
  const std::uint64_t all = parts_.indexer->totals().uploads + group.begun - group.ended;
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
Task<Result<>> Committer::end_upload(Call call, Ulid token, ChangeGroup& group) {
  CO_TRY(const auto began, co_await parts_.indexer->upload(call, token));
  if (!began) co_return Result<>{};
  group.add(control(RecordKind::abort, AbortRecord{token, began->expires}, true));
  parts_.log.info("an idle upload gives way", {{"upload", format_ulid(token)}});
  co_return Result<>{};
}

}  // namespace cairn::store
