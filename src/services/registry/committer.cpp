#include "services/registry/committer.h"

#include <algorithm>

#include "services/registry/signatures.h"

namespace cairn::registry {
namespace {

std::string_view name_of(Mutation::Kind kind) {
  switch (kind) {
    case Mutation::Kind::propose:
      return "propose";
    case Mutation::Kind::approve:
      return "approve";
    case Mutation::Kind::commit:
      return "commit";
    case Mutation::Kind::supersede:
      return "supersede";
    default:
      return "chore";
  }
}

// The change as the trail and the log record it.
AuditEvent event_of(const Mutation& mutation, WallTime at, ErrorCode code) {
  AuditEvent event;
  event.at = at;
  event.op = mutation.op.empty() ? std::string(name_of(mutation.kind)) : mutation.op;
  event.who = mutation.who;
  event.code = cairn::name_of(code);
  if (mutation.id != Ulid{}) event.id = mutation.id;
  if (mutation.payload_b3 != Address{}) event.hash = mutation.payload_b3;
  if (code == ErrorCode::ok && mutation.kind == Mutation::Kind::propose) {
    event.id = mutation.result->id;
    event.hash = mutation.result->payload_b3;
  }
  return event;
}

// Chores are the registry's own changes: their outcome is not for the trail.
bool is_chore(const Mutation& mutation) { return mutation.kind > Mutation::Kind::refuse; }

// A change that is refused because a table or the disk is full takes no room in the log.
bool is_shed(const Error& error) {
  return error.code == ErrorCode::busy || error.code == ErrorCode::degraded ||
         error.code == ErrorCode::storage_full;
}

}  // namespace

Committer::Committer(Registry& registry, io::Machine& machine, observe::Logger log, EmbeddedBackend& backend,
                     DiskRoom& room, Newest& newest)
    : GroupCommit(machine.shard, machine.mailbox, {queue_is_full, "the registry is closed"}),
      registry_(registry),
      machine_(machine),
      log_(log),
      backend_(backend),
      room_(room),
      newest_(newest),
      planner_(registry.options(), machine),
      applied_(backend.log().end()) {}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<> Committer::begin(Call call, ChangeGroup& group) {
  // The log takes half a segment at once. An eighth leaves room for the proposal that comes on top.
  group.bytes_max = std::min<std::size_t>(group.bytes_max, registry_.options().segment_size / 8);
  group.disk_full = registry_.status().full && !co_await room_.look(call);
}

std::optional<Error> Committer::closed(const Mutation&) const {
  if (!backend_.fenced() && !registry_.status().fenced) return std::nullopt;
  return Error{ErrorCode::degraded,
               registry_.status().rolled_back
                   ? "the log has lost versions: writes are fenced until its segments are restored"
                   : "writes are fenced until the next start"};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<Planned>> Committer::plan(Call, Mutation& mutation, ChangeGroup& group) {
  const bool of_proposal =
      mutation.kind == Mutation::Kind::commit || mutation.kind == Mutation::Kind::supersede;
  // The records that the change counts on must be in the ledger first.
  if (of_proposal && group.touched.contains(mutation.id)) co_return Planned::deferred;
  if (of_proposal) check_signatures(registry_, mutation);
  if (is_chore(mutation) && !group.members.empty()) co_return Planned::deferred;
  co_return registry_.ledger().with([&](Ledger& ledger) { return decide(ledger, mutation, group); });
}

Result<Planned> Committer::decide(const Ledger& ledger, Mutation& mutation, ChangeGroup& group) {
  const bool chore = is_chore(mutation);
  // A change that no checkpoint could cover is not begun. Chores are: they may free room.
  const Result<Planned> planned = group.disk_full && !chore
                                      ? fail(ErrorCode::storage_full, "the disk is full")
                                      : planner_.plan(ledger, mutation, group);
  if (planned) {
    // The change had been made before.
    if (*planned == Planned::answered && !chore)
      registry_.audit().with(
          [&](AuditTable& table) { table.note(event_of(mutation, now_wall(), ErrorCode::ok)); });
    return planned;
  }
  const Error error = planned.error();
  if (error.code == ErrorCode::chain_mismatch) ++registry_.status().cas_failed;
  // A refusal is noted in the log, unless it is a chore's, is shed, or is beyond the token's turns.
  const AuditEvent event = event_of(mutation, now_wall(), error.code);
  const bool logged = !chore && !is_shed(error) && registry_.audit().with([&](AuditTable& table) {
    return table.take_turn(mutation.who, event.at);
  });
  if (!logged) return fail(error);
  AuditRecord audit{event.at, event.id, event.op, event.who, event.code, event.hash};
  group.add(RecordKind::audit, encode(audit));
  mutation.result = fail(error);
  return Planned::joined;
}

void Committer::refused(const Mutation& mutation, const Error& error) {
  if (is_chore(mutation)) return;
  ++registry_.status().refused;
  AuditEvent event = event_of(mutation, now_wall(), error.code);
  registry_.audit().with([&](AuditTable& table) {
    is_shed(error) ? table.note(std::move(event)) : table.count(std::move(event));
  });
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<std::vector<store::Entry>>> Committer::append(Call call, ChangeGroup& group) {
  Status& status = registry_.status();
  const Instant begun = machine_.shard.now();
  status.append_since = begun.ns;
  auto placed = group.advance ? co_await backend_.advance(call, group.advance->expected, group.advance->next,
                                                          std::move(group.records))
                              : co_await backend_.append(call, std::move(group.records));
  status.append_took = (machine_.shard.now() - begun).ns;
  status.append_ended = machine_.shard.now().ns;
  status.append_since = 0;
  if (!placed && backend_.fenced()) fence(placed.error().context);
  if (!placed && placed.error().code == ErrorCode::storage_full) status.full = true;
  co_return placed;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<>> Committer::apply(Call, ChangeGroup& group, std::vector<store::Entry> placed) {
  Status& status = registry_.status();
  const Result<> applied = registry_.ledger().with([&](Ledger& ledger) -> Result<> {
    for (const store::Entry& entry : placed)
      TRY_VOID(ledger.apply(entry.header.kind, as_bytes(entry.meta), entry.at));
    if (group.advance) group.advance->mutation->result->head = ledger.head();
    status.versions.store(ledger.size(), std::memory_order_release);
    status.first_kept = ledger.first_kept();
    return {};
  });
  applied_ = backend_.log().end();
  if (applied) co_return Result<>{};
  fence("the ledger cannot follow the log");
  co_return fail(ErrorCode::degraded, "the ledger cannot follow the log");
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<>> Committer::finish(Call call, ChangeGroup& group) {
  if (!group.gone) co_return Result<>{};
  CO_TRY_VOID(co_await backend_.log().remove_segment(call, *group.gone));
  registry_.forget_segment(*group.gone);
  co_return Result<>{};
}

void Committer::concluded(const ChangeGroup& group, const Result<>&) {
  Status& status = registry_.status();
  for (const Mutation* member : group.members) {
    if (is_chore(*member)) continue;
    const bool done = member->result.has_value();
    const bool change = member->kind == Mutation::Kind::propose || member->kind == Mutation::Kind::approve;
    ++(!done ? status.refused : change ? status.accepted : status.committed);
    const ErrorCode code = done ? ErrorCode::ok : member->result.error().code;
    registry_.audit().with([&](AuditTable& table) { table.add(event_of(*member, now_wall(), code)); });
  }
  // Before the members are told: a caller that has its answer finds it in the numbers.
  registry_.publish_status(backend_.log());
}

void Committer::told(const ChangeGroup& group, const Result<>& written) {
  if (!written || !group.advance) return;
  registry_.announce(registry_.ledger().with([](Ledger& ledger) { return ledger.head(); }));
  newest_.tell(machine_.shard.now());
}

void Committer::fence(const char* why) noexcept {
  if (registry_.status().fenced.exchange(true)) return;
  log_.error("writes are fenced until the next start", {{"why", why}});
}

}  // namespace cairn::registry
