// A delete is a record that says so; a pin is what keeps one from being written.
#include "store/committer.h"

namespace cairn::store {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_remove(Call call, Mutation& mutation, ChangeGroup& group) {
  const Address address = *mutation.address;
  if (group.is_taken(subject_of(address), ChangeGroup::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto now, co_await parts_.indexer->object(call, address));
  if (!now) co_return fail(ErrorCode::not_found, "no such object", Side::client);
  if (now->pinned) co_return fail(ErrorCode::pinned, "the object is pinned", Side::client);
  mutation.result =
      Outcome{.address = address, .size = now->size, .existed = true, .token = {}, .expires = {}};
  group.add(control(RecordKind::remove, RemoveRecord{address, now->origin}, true));
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<Planned>> Committer::plan_pin(Call call, Mutation& mutation, ChangeGroup& group) {
  const Address address = *mutation.address;
  if (group.is_taken(subject_of(address), ChangeGroup::Touch::alone)) co_return Planned::deferred;
  CO_TRY(const auto now, co_await parts_.indexer->object(call, address));
  if (!now) co_return fail(ErrorCode::not_found, "no such object", Side::client);
  mutation.result =
      Outcome{.address = address, .size = now->size, .existed = true, .token = {}, .expires = {}};
  if (now->pinned == mutation.flag) co_return Planned::answered;
  group.add(control(RecordKind::pin, PinRecord{address, now->origin, mutation.flag}, !mutation.flag));
  co_return Planned::joined;
}

}  // namespace cairn::store
