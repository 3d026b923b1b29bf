#include "store/committer.h"

#include <algorithm>

#include "crypto/outboard.h"
#include "runtime/wait.h"
#include "store/compactor.h"
#include "store/index_keeper.h"
#include "store/sweeper.h"

namespace cairn::store {
namespace {

constexpr Duration gather_most = Duration::millis(2);

}  // namespace

Committer::Committer(HomeParts& parts, Compactor& compactor, Sweeper& sweeper, IndexKeeper& keeper)
    : parts_(parts),
      compactor_(compactor),
      sweeper_(sweeper),
      keeper_(keeper),
      index_seat_(parts.machine.pool, Lane::index),
      errands_(parts.machine.shard, parts.machine.mailbox, {changes_full, "the store is closed"}) {}

Task<> Committer::commit_loop(Call call) {
  // Stopped by its scope: whatever is asked for after that is refused by close().
  while (co_await errands_.arrived(call)) {
    co_await gather(call);
    co_await commit_group(call.unbounded());
  }
}

// Larger groups, fewer syncs. Those who were answered are likely to ask again, so while this shard has other
// work to do, most of as many as were there around the last group are waited for. What the rest asks is
// worked on while the disk syncs.
Task<> Committer::gather(Call call) {
  const Instant until = parts_.machine.shard.now() + gather_most;
  const std::size_t enough = around_ - around_ / 4;
  while (co_await next_turn(call)) {
    if (errands_.waiting() >= enough || parts_.machine.shard.now() >= until) break;
  }
}

Task<> Committer::commit_group(Call call) {
  ChangeGroup group;
  group.bytes_max = parts_.batch_max(ChangeGroup::bytes_most);
  parts_.indexer->forget();
  for (Mutation* first = nullptr; !group.full() && (first = errands_.next()) != nullptr;) {
    Mutation& next = *first;
    // A new index writes nothing to the log, and ends that changes are refused.
    if ((parts_.store.status().fenced || parts_.store.status().index_behind) &&
        next.kind != Mutation::Kind::adopt_index) {
      errands_.take(next);
      errands_.refuse(next, {ErrorCode::degraded, parts_.store.status().fenced
                                                      ? "writes are fenced until the next start"
                                                      : "the index is damaged: it is made anew"});
      continue;
    }
    // On a full disk what frees space must not fail together with what needs it.
    if (compactor_.full() && !group.members.empty() && group.frees != next.frees_space()) break;
    const Result<Planned> planned = co_await plan(call, next, group);
    if (planned && *planned == Planned::deferred) break;
    errands_.take(next);
    if (!planned) {
      errands_.refuse(next, planned.error());
    } else if (*planned == Planned::answered) {
      errands_.answer(next);
    } else {
      group.frees = next.frees_space();
      group.members.push_back(&next);
    }
  }
  if (group.members.empty()) co_return;
  const Result<> written = co_await write_group(call, group);
  around_ = group.members.size() + (group.full() ? 0 : errands_.waiting());  // not more than can go together
  // From now on the two kinds go apart; what frees space is tried again alone.
  if (is_full(written)) compactor_.note_full();
  const bool mixed =
      is_full(written) && std::any_of(group.members.begin(), group.members.end(),
                                      [](const Mutation* member) { return !member->frees_space(); });
  List<Mutation, ErrandLink> again;
  for (Mutation* member : group.members) {
    if (written)
      errands_.answer(*member);
    else if (mixed && member->frees_space())
      again.push_back(*member);
    else
      errands_.refuse(*member, written.error());
  }
  errands_.put_back(again);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<>> Committer::write_group(Call call, ChangeGroup& group) {
  if (group.adopts) {
    CO_TRY_VOID(co_await keeper_.adopt_index(call));
    indexed_ = parts_.segments->end().sequence;
    co_return Result<>{};
  }
  CO_TRY_VOID(co_await make_index_ready(call));
  if (!group.records.empty()) {
    auto appended = co_await parts_.segments->append(call, std::move(group.records));
    sweeper_.note_lost();
    if (!appended) {
      if (parts_.segments->fenced()) parts_.fence(appended.error().context);
      if (appended.error().code != ErrorCode::io_failed) co_return fail(appended.error());
      // The disk's fault, and nothing of it happened: asked again later it may be done.
      if (auto held = failure_told_.due(parts_.machine.shard.now()))
        parts_.log.error("the disk refuses the log",
                         {{"why", appended.error().context}, {"suppressed", *held}});
      parts_.store.status().refused_at = parts_.machine.shard.now().ns;
      co_return fail(ErrorCode::degraded, "the disk refuses the log");
    }
    parts_.store.status().refused_at = 0;
    for (Entry& one : *appended) {
      parts_.store.status().groups_written.fetch_add(crypto::group_count(one.header.data_size),
                                                     std::memory_order_relaxed);
      auto applied = co_await parts_.indexer->apply(call, one.header, one.at, std::move(one.meta));
      if (!applied) co_return index_fell_behind("the index cannot follow the log");
    }
  }
  for (auto& [segment, stale] : group.gone)
    if (auto noted = co_await parts_.indexer->segment_gone(call, segment, std::move(stale)); !noted)
      co_return index_fell_behind("the index cannot follow the log");
  for (const Ulid& token : group.forgotten) parts_.indexer->forget_committed(token);
  const LogPoint end = parts_.segments->end();
  auto changes = parts_.indexer->take(end);
  if (!changes) co_return index_fell_behind("the index cannot follow the log");
  if (auto indexed = co_await parts_.kv->write(call, std::move(*changes)); !indexed)
    co_return index_fell_behind("the index cannot be written");
  indexed_ = end.sequence;
  note_uploads(group);
  for (const Address& address : parts_.indexer->take_gone()) parts_.store.cache().erase(address);
  parts_.publish_totals();
  parts_.tell_foreign();
  if (parts_.segments->uses_reserve()) compactor_.note_full();
  co_await compactor_.end_dead_segment(call);
  co_await compactor_.look_for_room(call);
  co_return Result<>{};
}

Task<Result<>> Committer::make_index_ready(Call call) {
  auto ready = co_await parts_.kv->make_ready(call);
  if (is_full(ready) && co_await parts_.segments->release_reserve(call))
    ready = co_await parts_.kv->make_ready(call);
  if (!ready && !is_full(ready) && !parts_.store.status().index_damaged)
    parts_.fence("the index cannot be written");
  co_return ready;
}

std::unexpected<Error> Committer::index_fell_behind(const char* why) noexcept {
  parts_.indexer->forget();
  if (parts_.store.status().index_damaged)
    parts_.store.status().index_behind = true;
  else
    parts_.fence(why);
  return fail(ErrorCode::degraded, why);
}

}  // namespace cairn::store
