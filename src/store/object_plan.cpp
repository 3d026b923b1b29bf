// What each kind of change needs: a record that joins the group, an answer at once, or a later group.
#include <utility>

#include "crypto/outboard.h"
#include "store/object_group.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

std::uint8_t number_of(RecordKind kind) { return static_cast<std::uint8_t>(kind); }

template <class T>
Record control(RecordKind kind, const T& content, bool reserve) {
  Record record;
  record.kind = number_of(kind);
  record.meta = encode(content);
  record.reserve = reserve;
  return record;
}

std::pair<Address, Ulid> subject_of(const Address& address) { return {address, {}}; }
std::pair<Address, Ulid> subject_of(const Ulid& token) { return {{}, token}; }

}  // namespace

Task<Result<ObjectHome::Planned>> ObjectHome::plan(Call call, Mutation& mutation, Group& group) {
  switch (mutation.kind) {
    case Mutation::Kind::put:
      return plan_put(call, mutation, group);
    case Mutation::Kind::part:
      return plan_part(call, mutation, group);
    case Mutation::Kind::commit:
      return plan_commit(call, mutation, group);
    case Mutation::Kind::begin:
      return plan_begin(call, mutation, group);
    case Mutation::Kind::abort:
    case Mutation::Kind::expire:
      return plan_abort(call, mutation, group);
    case Mutation::Kind::end_idle:
      return plan_end_idle(call, mutation, group);
    case Mutation::Kind::remove:
      return plan_remove(call, mutation, group);
    case Mutation::Kind::pin:
      return plan_pin(call, mutation, group);
    case Mutation::Kind::quarantine:
      return plan_quarantine(call, mutation, group);
    case Mutation::Kind::lift:
      return plan_lift(call, mutation, group);
    case Mutation::Kind::relocate:
      return plan_relocate(call, mutation, group);
    case Mutation::Kind::segment_gone:
      return plan_segment_gone(call, mutation, group);
    case Mutation::Kind::adopt_index:
      break;
  }
  return plan_adopt_index(call, mutation, group);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_put(Call call, Mutation& mutation, Group& group) {
  const Address address = *mutation.address;
  std::uint64_t size = 0;
  for (const HeapBytes& block : mutation.record.data) size += block.size();
  mutation.result = Outcome{.address = address, .size = size, .existed = false, .token = {}, .expires = {}};
  const Group::Subject subject = subject_of(address);
  if (const auto taken = group.touched.find(subject); taken != group.touched.end()) {
    if (taken->second != Group::Touch::put) co_return Planned::deferred;
    mutation.result->existed = true;
    co_return Planned::joined;  // one copy, answered together
  }
  CO_TRY(const auto now, co_await indexer_->object_to_change(call, address));
  if (now && !now->quarantined()) {
    mutation.result->existed = true;
    co_return Planned::answered;
  }
  if (now && now->pinned) {
    // Good bytes in place of bad ones: who pinned them still means them.
    ObjectRecord record;
    if (!decode(as_bytes(mutation.record.meta), record))
      co_return fail(ErrorCode::internal, "a record does not decode");
    record.pinned = true;
    mutation.record.meta = encode(record);
  }
  group.touched.emplace(subject, Group::Touch::put);
  group.add(std::move(mutation.record));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_part(Call call, Mutation& mutation, Group& group) {
  const Ulid token = mutation.part.token;
  if (group.is_taken(subject_of(token), Group::Touch::part)) co_return Planned::deferred;
  CO_TRY(const auto began, co_await indexer_->upload(call, token));
  if (!began || began->committed || began->expires <= machine_.shard.wall())
    co_return fail(ErrorCode::not_found, "no such upload", Side::client);
  std::uint64_t size = 0;
  for (const HeapBytes& block : mutation.record.data) size += block.size();
  const std::uint64_t end = std::uint64_t{mutation.part.index} * crypto::part_size + size;
  // The record of the commit holds a hash for each part, and must fit too.
  const std::uint64_t most = batch_max(record_meta_max) / sizeof(crypto::Hash) * crypto::part_size;
  if (end > std::min(largest_object, most) || (began->size != 0 && end > began->size))
    co_return fail(ErrorCode::body_cap, "the part reaches beyond the upload's size", Side::client);
  mutation.result =
      Outcome{.address = {}, .size = end, .existed = false, .token = token, .expires = began->expires};
  CO_TRY(const auto now, co_await indexer_->part(call, token, mutation.part.index));
  if (now && now->hash == mutation.part.hash && now->place.data_size == size) {
    mutation.result->existed = true;
    indexer_->touch_upload(token, machine_.shard.now());
    co_return Planned::answered;
  }
  group.add(std::move(mutation.record));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_commit(Call call, Mutation& mutation, Group& group) {
  const Ulid token = mutation.token;
  if (!group.members.empty()) co_return Planned::deferred;  // it may be large: a group of its own
  CO_TRY(const auto began, co_await indexer_->upload(call, token));
  if (!began || (!began->committed && began->expires <= machine_.shard.wall()))
    co_return fail(ErrorCode::not_found, "no such upload", Side::client);
  CommitRecord record;
  if (began->committed) {
    CO_TRY(const auto made, co_await indexer_->object(call, *began->committed));
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
    CO_TRY(const auto found, co_await indexer_->parts(call, token, first, 512));
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
  CO_TRY(const auto now, co_await indexer_->object(call, record.address));
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
Task<Result<ObjectHome::Planned>> ObjectHome::plan_abort(Call call, Mutation& mutation, Group& group) {
  const Ulid token = mutation.token;
  if (group.is_taken(subject_of(token), Group::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto began, co_await indexer_->upload(call, token));
  const bool over = began && began->expires <= machine_.shard.wall();
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

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_remove(Call call, Mutation& mutation, Group& group) {
  const Address address = *mutation.address;
  if (group.is_taken(subject_of(address), Group::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto now, co_await indexer_->object(call, address));
  if (!now) co_return fail(ErrorCode::not_found, "no such object", Side::client);
  if (now->pinned) co_return fail(ErrorCode::pinned, "the object is pinned", Side::client);
  mutation.result =
      Outcome{.address = address, .size = now->size, .existed = true, .token = {}, .expires = {}};
  group.add(control(RecordKind::remove, RemoveRecord{address, now->origin}, true));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_pin(Call call, Mutation& mutation, Group& group) {
  const Address address = *mutation.address;
  if (group.is_taken(subject_of(address), Group::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto now, co_await indexer_->object(call, address));
  if (!now) co_return fail(ErrorCode::not_found, "no such object", Side::client);
  mutation.result =
      Outcome{.address = address, .size = now->size, .existed = true, .token = {}, .expires = {}};
  if (now->pinned == mutation.flag) co_return Planned::answered;
  group.add(control(RecordKind::pin, PinRecord{address, now->origin, mutation.flag}, !mutation.flag));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_quarantine(Call call, Mutation& mutation, Group& group) {
  const Address address = *mutation.address;
  if (group.is_taken(subject_of(address), Group::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto now, co_await indexer_->object(call, address));
  mutation.result = Outcome{.address = address, .size = 0, .existed = true, .token = {}, .expires = {}};
  if (!now || now->origin != mutation.origin || now->quarantined()) co_return Planned::answered;
  const QuarantineRecord record{address, mutation.origin, mutation.at};
  log_.error(is_gone(record) ? "stored bytes are gone" : "stored bytes do not match their address",
             {{"address", format_address(address)},
              {"segment", mutation.at.segment},
              {"offset", mutation.at.offset}});
  damaged_[mutation.at.segment] = true;
  if (is_gone(record)) store_.status_.lossy = true;
  group.add(control(RecordKind::quarantine, record, true));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_lift(Call call, Mutation& mutation, Group& group) {
  const Address address = *mutation.address;
  if (group.is_taken(subject_of(address), Group::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto now, co_await indexer_->object(call, address));
  mutation.result = Outcome{.address = address, .size = 0, .existed = true, .token = {}, .expires = {}};
  if (!now || now->origin != mutation.origin || !now->quarantined()) co_return Planned::answered;
  log_.info("an object in quarantine is whole again", {{"address", format_address(address)}});
  group.add(control(RecordKind::quarantine, QuarantineRecord{address, mutation.origin, {}}, true));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_relocate(Call call, Mutation& mutation, Group& group) {
  // Alone, so that nothing of what it moves changes in the same group.
  if (!group.members.empty()) co_return Planned::deferred;
  group.closed = true;
  for (Mutation::Move& move : mutation.moves) {
    CO_TRY(const bool needed, co_await indexer_->is_needed(call, move.entry, machine_.shard.wall()));
    if (needed) group.add(std::move(move.record));
  }
  mutation.result = Outcome{};
  co_return group.records.empty() ? Planned::answered : Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_segment_gone(Call, Mutation& mutation, Group& group) {
  if (!group.members.empty()) co_return Planned::deferred;
  group.closed = true;
  group.gone.emplace_back(mutation.at.segment, std::move(mutation.addresses));
  mutation.result = Outcome{};
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<ObjectHome::Planned>> ObjectHome::plan_adopt_index(Call, Mutation& mutation, Group& group) {
  if (!group.members.empty()) co_return Planned::deferred;
  group.closed = true;
  group.adopts = true;
  mutation.result = Outcome{};
  co_return Planned::joined;
}

}  // namespace cairn::store
