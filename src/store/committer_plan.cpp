// What each kind of change needs: a record that joins the group, an answer at once, or a later group.
#include <utility>

#include "store/committer.h"
#include "store/compactor.h"

namespace cairn::store {

namespace {

Task<Result<Planned>> defer() { co_return Planned::deferred; }

}  // namespace

// Every change passes here: it makes no frame of its own.
Task<Result<Planned>> Committer::plan(Call call, Mutation& mutation, ChangeGroup& group) {
  // On a full disk what frees space must not fail together with what needs it.
  if (compactor_.full() && !group.members.empty() &&
      group.members.back()->frees_space() != mutation.frees_space())
    return defer();
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
Task<Result<Planned>> Committer::plan_put(Call call, Mutation& mutation, ChangeGroup& group) {
  const Address address = *mutation.address;
  std::uint64_t size = 0;
  for (const HeapBytes& block : mutation.record.data) size += block.size();
  mutation.result = Outcome{.address = address, .size = size, .existed = false, .token = {}, .expires = {}};
  const ChangeGroup::Subject subject = subject_of(address);
  if (const auto taken = group.touched.find(subject); taken != group.touched.end()) {
    if (taken->second != ChangeGroup::Touch::put) co_return Planned::deferred;
    mutation.result->existed = true;
    co_return Planned::joined;  // one copy, answered together
  }
  CO_TRY(const auto now, co_await parts_.indexer->object_to_change(call, address));
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
  group.touched.emplace(subject, ChangeGroup::Touch::put);
  group.add(std::move(mutation.record));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_quarantine(Call call, Mutation& mutation, ChangeGroup& group) {
  const Address address = *mutation.address;
  if (group.is_taken(subject_of(address), ChangeGroup::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto now, co_await parts_.indexer->object(call, address));
  mutation.result = Outcome{.address = address, .size = 0, .existed = true, .token = {}, .expires = {}};
  if (!now || now->origin != mutation.origin || now->quarantined()) co_return Planned::answered;
  const QuarantineRecord record{address, mutation.origin, mutation.at};
  parts_.log.error(is_gone(record) ? "stored bytes are gone" : "stored bytes do not match their address",
                   {{"address", format_address(address)},
                    {"segment", mutation.at.segment},
                    {"offset", mutation.at.offset}});
  parts_.damaged[mutation.at.segment] = true;
  if (is_gone(record)) parts_.store.status().lossy = true;
  group.add(control(RecordKind::quarantine, record, true));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_lift(Call call, Mutation& mutation, ChangeGroup& group) {
  const Address address = *mutation.address;
  if (group.is_taken(subject_of(address), ChangeGroup::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto now, co_await parts_.indexer->object(call, address));
  mutation.result = Outcome{.address = address, .size = 0, .existed = true, .token = {}, .expires = {}};
  if (!now || now->origin != mutation.origin || !now->quarantined()) co_return Planned::answered;
  parts_.log.info("an object in quarantine is whole again", {{"address", format_address(address)}});
  group.add(control(RecordKind::quarantine, QuarantineRecord{address, mutation.origin, {}}, true));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_relocate(Call call, Mutation& mutation, ChangeGroup& group) {
  // Alone, so that nothing of what it moves changes in the same group.
  if (!group.members.empty()) co_return Planned::deferred;
  group.closed = true;
  for (Mutation::Move& move : mutation.moves) {
    CO_TRY(const bool needed,
           co_await parts_.indexer->is_needed(call, move.entry, parts_.machine.shard.wall()));
    if (needed) group.add(std::move(move.record));
  }
  mutation.result = Outcome{};
  co_return group.records.empty() ? Planned::answered : Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_segment_gone(Call, Mutation& mutation, ChangeGroup& group) {
  if (!group.members.empty()) co_return Planned::deferred;
  group.closed = true;
  group.gone.emplace_back(mutation.at.segment, std::move(mutation.addresses));
  mutation.result = Outcome{};
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_adopt_index(Call, Mutation& mutation, ChangeGroup& group) {
  if (!group.members.empty()) co_return Planned::deferred;
  group.closed = true;
  group.adopts = true;
  mutation.result = Outcome{};
  co_return Planned::joined;
}

}  // namespace cairn::store
