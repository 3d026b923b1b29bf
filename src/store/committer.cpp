#include "store/committer.h"

#include "crypto/outboard.h"
#include "store/change_feed.h"
#include "store/compactor.h"
#include "store/index_keeper.h"
#include "store/sweeper.h"

namespace cairn::store {
namespace {

constexpr Duration gather_most = Duration::millis(2);

}  // namespace

Committer::Committer(HomeParts& parts, Compactor& compactor, Sweeper& sweeper, IndexKeeper& keeper)
    : GroupCommit(parts.machine.shard, parts.machine.mailbox, {changes_full, "the store is closed"},
                  gather_most),
      parts_(parts),
      compactor_(compactor),
      sweeper_(sweeper),
      keeper_(keeper),
      index_seat_(parts.machine.pool, Lane::index) {}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the group waits for it
Task<> Committer::begin(Call, ChangeGroup& group) {
  group.bytes_max = parts_.batch_max(ChangeGroup::bytes_most);
  parts_.indexer->forget();
  co_return;
}

// A new index writes nothing to the log, and ends that changes are refused.
std::optional<Error> Committer::closed(const Mutation& mutation) const {
  const StoreStatus& status = parts_.store.status();
  if ((!status.fenced && !status.index_behind) || mutation.kind == Mutation::Kind::adopt_index)
    return std::nullopt;
  return Error{ErrorCode::degraded, status.fenced ? "writes are fenced until the next start"
                                                  : "the index is damaged: it is made anew"};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the group waits for it
Task<Result<>> Committer::prepare(Call call, ChangeGroup& group) {
  if (group.adopts) co_return Result<>{};
  auto ready = co_await parts_.kv->make_ready(call);
  if (is_full(ready) && co_await parts_.segments->release_reserve(call))
    ready = co_await parts_.kv->make_ready(call);
  if (!ready && !is_full(ready) && !parts_.store.status().index_damaged)
    parts_.fence("the index cannot be written");
  co_return ready;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the group waits for it
Task<Result<std::vector<Entry>>> Committer::append(Call call, ChangeGroup& group) {
  auto appended = co_await parts_.segments->append(call, std::move(group.records));
  sweeper_.note_lost();
  if (appended) {
    parts_.store.status().refused_at = 0;
    co_return appended;
  }
  if (parts_.segments->fenced()) parts_.fence(appended.error().context);
  if (appended.error().code != ErrorCode::io_failed) co_return appended;
  // The disk's fault, and nothing of it happened: asked again later it may be done.
  if (auto held = failure_told_.due(parts_.machine.shard.now()))
    parts_.log.error("the disk refuses the log", {{"why", appended.error().context}, {"suppressed", *held}});
  parts_.store.status().refused_at = parts_.machine.shard.now().ns;
  co_return fail(ErrorCode::degraded, "the disk refuses the log");
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the group waits for it
Task<Result<>> Committer::apply(Call call, ChangeGroup& group, std::vector<Entry> placed) {
  ChangeFeed* const feed = parts_.store.options().changed;
  if (group.adopts) {
    CO_TRY_VOID(co_await keeper_.adopt_index(call));
    indexed_ = parts_.segments->end().sequence;
    if (feed != nullptr) feed->tell_all(parts_.machine.shard.now());
    co_return Result<>{};
  }
  changed_.clear();
  parts_.indexer->note_changes(feed == nullptr ? nullptr : &changed_);
  for (Entry& one : placed) {
    parts_.store.status().groups_written.fetch_add(crypto::group_count(one.header.data_size),
                                                   std::memory_order_relaxed);
    auto applied = co_await parts_.indexer->apply(call, one.header, one.at, std::move(one.meta));
    if (!applied) co_return index_fell_behind("the index cannot follow the log");
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
  if (feed != nullptr) feed->tell(changed_, parts_.machine.shard.now());
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the group waits for it
Task<Result<>> Committer::finish(Call call, ChangeGroup& group) {
  if (group.adopts) co_return Result<>{};
  parts_.publish_totals();
  parts_.tell_foreign();
  if (parts_.segments->uses_reserve()) compactor_.note_full();
  co_await compactor_.end_dead_segment(call);
  co_await compactor_.look_for_room(call);
  co_return Result<>{};
}

// What frees space is tried again without what needed it.
bool Committer::may_try_again(const Mutation& mutation, const Error& error) const {
  return error.code == ErrorCode::storage_full && mutation.frees_space();
}

// From now on the two kinds go apart.
void Committer::concluded(const ChangeGroup&, const Result<>& written) {
  if (is_full(written)) compactor_.note_full();
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
