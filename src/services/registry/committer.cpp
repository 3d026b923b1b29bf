#include "services/registry/committer.h"

#include <algorithm>

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

// What the trail and the log say of it.
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

}  // namespace

Committer::Committer(Registry& registry, io::Machine& machine, observe::Logger log, EmbeddedBackend& backend,
                     DiskRoom& room, Newest& newest)
    : registry_(registry),
      machine_(machine),
      log_(log),
      backend_(backend),
      room_(room),
      newest_(newest),
      planner_(registry.options(), machine),
      errands_(machine.shard, machine.mailbox, {queue_is_full, "the registry is closed"}),
      applied_(backend.log().end()) {}

Task<> Committer::run(Call call) {
  // Stopped by its scope: whatever is asked for after that is refused by close().
  while (co_await errands_.arrived(call)) co_await commit_group(call.unbounded());
}

Task<> Committer::commit_group(Call call) {
  const bool full = registry_.status().full && !co_await room_.look(call);
  ChangeGroup group(registry_.options().segment_size);
  const bool fenced = backend_.fenced() || registry_.status().fenced;
  registry_.ledger().with([&](Ledger& ledger) {
    for (Mutation* first = nullptr; !group.full() && (first = errands_.next()) != nullptr;) {
      Mutation& next = *first;
      const bool of_proposal = next.kind == Mutation::Kind::commit || next.kind == Mutation::Kind::supersede;
      // What it counts on must be in the ledger first.
      if (of_proposal && group.touched.contains(next.id)) break;
      // What becomes of a chore is nobody else's matter.
      const bool chore = next.kind > Mutation::Kind::refuse;
      if (chore && !group.members.empty()) break;
      errands_.take(next);
      const auto note = [&](ErrorCode code) {
        registry_.audit().with(
            [&](AuditTable& table) { table.note(event_of(next, recorded_time(machine_.shard), code)); });
      };
      if (fenced) {
        if (!chore) ++registry_.status().refused, note(ErrorCode::degraded);
        next.result =
            fail(ErrorCode::degraded,
                 registry_.status().rolled_back
                     ? "the log has lost versions: writes are fenced until its segments are restored"
                     : "writes are fenced until the next start");
        group.answered.push_back(&next);
        continue;
      }
      // What could not be covered by a checkpoint is not begun. Chores may free room.
      const Result<Planned> planned = full && !chore ? fail(ErrorCode::storage_full, "the disk is full")
                                                     : planner_.plan(ledger, next, group);
      if (planned) {
        // It had been done before.
        if (*planned == Planned::answered && !chore) note(ErrorCode::ok);
        if (*planned == Planned::answered)
          group.answered.push_back(&next);
        else
          group.members.push_back({&next, {}});
        continue;
      }
      // Refused: noted like everything else, but for our own chores. What a full table or disk sheds, and
      // more than a token has turns for, takes no room of the log.
      const Error error = planned.error();
      if (error.code == ErrorCode::chain_mismatch) ++registry_.status().cas_failed;
      if (!chore) ++registry_.status().refused;
      const bool shed = error.code == ErrorCode::busy || error.code == ErrorCode::degraded ||
                        error.code == ErrorCode::storage_full;
      AuditEvent event = event_of(next, recorded_time(machine_.shard), error.code);
      const bool logged = !chore && !shed && registry_.audit().with([&](AuditTable& table) {
        return table.take_turn(next.who, event.at);
      });
      if (!logged) {
        if (!chore)
          registry_.audit().with([&](AuditTable& table) {
            shed ? table.note(std::move(event)) : table.count(std::move(event));
          });
        next.result = fail(error);
        group.answered.push_back(&next);
        continue;
      }
      AuditRecord audit{event.at, event.id, event.op, event.who, event.code, event.hash};
      group.add(RecordKind::audit, encode(audit));
      group.members.push_back({&next, error});
    }
  });
  for (Mutation* mutation : group.answered) errands_.answer(*mutation);
  if (group.members.empty()) co_return;
  const Result<> written = co_await write_group(call, group);
  const std::optional<HeadMark> head =
      written && group.advance ? std::optional(group.advance->next) : std::nullopt;
  for (const ChangeGroup::Member& member : group.members) {
    const Mutation::Kind kind = member.mutation->kind;
    if (!member.refused && kind < Mutation::Kind::refuse) {
      const bool change = kind == Mutation::Kind::propose || kind == Mutation::Kind::approve;
      if (!written)
        ++registry_.status().refused;
      else
        ++(change ? registry_.status().accepted : registry_.status().committed);
    }
    if (kind <= Mutation::Kind::refuse) {
      const ErrorCode code = member.refused ? member.refused->code
                             : written      ? ErrorCode::ok
                                            : written.error().code;
      registry_.audit().with([&](AuditTable& table) {
        table.add(event_of(*member.mutation, recorded_time(machine_.shard), code));
      });
    }
    if (member.refused)
      errands_.refuse(*member.mutation, *member.refused);
    else if (written)
      errands_.answer(*member.mutation);
    else
      errands_.refuse(*member.mutation, written.error());
  }
  registry_.publish_status(backend_.log());
  if (!head) co_return;
  registry_.announce(registry_.ledger().with([](Ledger& ledger) { return ledger.head(); }));
  newest_.tell(machine_.shard.now());
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<>> Committer::write_group(Call call, ChangeGroup& group) {
  if (!group.records.empty()) {
    Status& status = registry_.status();
    const Instant begun = machine_.shard.now();
    status.append_since = begun.ns;
    auto placed = group.advance ? co_await backend_.advance(call, group.advance->expected,
                                                            group.advance->next, std::move(group.records))
                                : co_await backend_.append(call, std::move(group.records));
    status.append_took = (machine_.shard.now() - begun).ns;
    status.append_ended = machine_.shard.now().ns;
    status.append_since = 0;
    if (!placed) {
      if (backend_.fenced()) fence(placed.error().context);
      if (placed.error().code == ErrorCode::storage_full) status.full = true;
      co_return fail(placed.error());
    }
    const Result<> applied = registry_.ledger().with([&](Ledger& ledger) -> Result<> {
      for (const store::Entry& entry : *placed)
        TRY_VOID(ledger.apply(entry.header.kind, as_bytes(entry.meta), entry.at));
      if (group.advance) group.advance->mutation->result->head = ledger.head();
      status.versions.store(ledger.size(), std::memory_order_release);
      status.first_kept = ledger.first_kept();
      return {};
    });
    applied_ = backend_.log().end();
    if (!applied) {
      fence("the ledger cannot follow the log");
      co_return fail(ErrorCode::degraded, "the ledger cannot follow the log");
    }
  }
  if (group.gone) {
    CO_TRY_VOID(co_await backend_.log().remove_segment(call, *group.gone));
    registry_.forget_segment(*group.gone);
  }
  co_return Result<>{};
}

void Committer::fence(const char* why) noexcept {
  if (registry_.status().fenced.exchange(true)) return;
  log_.error("writes are fenced until the next start", {{"why", why}});
}

}  // namespace cairn::registry
