#include "services/index/committer.h"

#include <algorithm>

#include "runtime/wait.h"
#include "services/index/home.h"

namespace cairn::index {
namespace {

using store::Planned;

constexpr Duration gather_most = Duration::millis(2);
// Signatures between two turns of the shard's other tasks: about a quarter of a millisecond.
constexpr std::size_t signed_per_turn = 8;

std::string tag_of(const std::optional<NameState>& state) {
  return state && state->manifest ? format_tag(*state) : std::string();
}

bool is_full(const auto& result) { return !result && result.error().code == ErrorCode::storage_full; }

}  // namespace

Committer::Committer(Ledger& ledger, io::Machine& machine, observe::Logger log, store::Log& segments,
                     store::Kv& kv, Indexer& indexer)
    : GroupCommit(machine.shard, machine.mailbox, {changes_full, "the index is closed"}, gather_most),
      ledger_(ledger),
      machine_(machine),
      log_(log),
      segments_(segments),
      kv_(kv),
      indexer_(indexer) {}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<> Committer::begin(Call, ChangeGroup& group) {
  // The log takes half a segment at once; one more manifest may join what is there.
  group.bytes_max = std::min<std::size_t>(group.bytes_max, ledger_.options().segment_size / 8);
  indexer_.forget();
  co_return;
}

std::optional<Error> Committer::closed(const Mutation&) const {
  const Status& status = ledger_.status();
  if (status.fenced) return Error{ErrorCode::degraded, "writes are fenced until the next start"};
  if (status.index_damaged)
    return Error{ErrorCode::degraded, "the index is damaged: the next start makes it anew"};
  return std::nullopt;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<Planned>> Committer::plan(Call call, Mutation& mutation, ChangeGroup& group) {
  switch (mutation.kind) {
    case Mutation::Kind::put_manifest:
      return plan_manifest(call, mutation, group);
    case Mutation::Kind::forget_manifest:
      return plan_forget(call, mutation, group);
    default:
      return plan_name(call, mutation, group);
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<Planned>> Committer::plan_name(Call call, Mutation& mutation, ChangeGroup& group) {
  std::optional<NameState> before;
  const auto known = group.names.find(mutation.name);
  const bool in_group = known != group.names.end();
  if (in_group) {
    before = known->second;
  } else {
    CO_TRY(before, co_await indexer_.name(call, mutation.name));
  }
  const bool exists = before && before->manifest;
  const std::string tag = tag_of(before);
  const bool removes = mutation.kind == Mutation::Kind::remove_name;
  std::optional<Error> refusal;
  if (!http::allows(mutation.conditions, {.etag = tag, .last_modified = {}, .exists = exists}))
    refusal = Error{ErrorCode::precondition_failed, "the name has changed meanwhile", Side::client};
  else if (removes && !exists)
    refusal = Error{ErrorCode::not_found, "there is no such name", Side::client};
  if (refusal && in_group) co_return Planned::deferred;  // NL-3: this state may still come to nothing
  if (refusal) co_return fail(*refusal);
  format::NameChange change{.name = mutation.name,
                            .manifest = {},
                            .sequence = (before ? before->sequence : 0) + 1,  // NL-2
                            .at = machine_.shard.wall(),
                            .note = std::move(mutation.note),
                            .key = {}};
  if (!removes) change.manifest = mutation.manifest;
  auto record = format::sign_name_change(change, *ledger_.options().key);
  if (!record) co_return fail(ErrorCode::malformed, record.error().context, Side::client);
  group.add(RecordKind::change, encode(ChangeRecord{std::move(mutation.by), std::move(*record)}));
  const NameState after{change.sequence, change.at, change.manifest};
  group.names[mutation.name] = after;
  mutation.result = Outcome{after, exists};
  if (++group.signed_since_turn % signed_per_turn == 0) co_await yield(call);
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<Planned>> Committer::plan_manifest(Call call, Mutation& mutation, ChangeGroup& group) {
  if (group.manifests.contains(mutation.manifest)) co_return Planned::deferred;
  CO_TRY(const auto there, co_await indexer_.manifest(call, mutation.manifest));
  mutation.result = Outcome{{}, there.has_value()};
  if (there) co_return Planned::answered;
  std::vector<HeapBytes> data;
  data.push_back(std::move(mutation.bytes));
  group.add(RecordKind::manifest, encode_address(mutation.manifest), std::move(data));
  group.manifests.insert(mutation.manifest);
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<Planned>> Committer::plan_forget(Call call, Mutation& mutation, ChangeGroup& group) {
  if (group.manifests.contains(mutation.manifest)) co_return Planned::deferred;
  CO_TRY(const auto there, co_await indexer_.manifest(call, mutation.manifest));
  mutation.result = Outcome{{}, there.has_value()};
  // Somebody may have put it again meanwhile.
  if (!there || there->at != mutation.at) co_return Planned::answered;
  group.add(RecordKind::forget_manifest, encode_address(mutation.manifest));
  group.manifests.insert(mutation.manifest);
  co_return Planned::joined;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<>> Committer::prepare(Call call, ChangeGroup&) {
  auto ready = co_await kv_.make_ready(call);
  if (is_full(ready) && co_await segments_.release_reserve(call)) ready = co_await kv_.make_ready(call);
  if (is_full(ready)) ledger_.status().full = true;
  if (!ready && !is_full(ready) && !ledger_.status().index_damaged) fence("the index cannot be written");
  co_return ready;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<std::vector<store::Entry>>> Committer::append(Call call, ChangeGroup& group) {
  auto appended = co_await segments_.append(call, std::move(group.records));
  ledger_.status().full = is_full(appended);
  if (appended) co_return appended;
  if (segments_.fenced()) fence(appended.error().context);
  if (appended.error().code != ErrorCode::io_failed) co_return appended;
  // The disk's fault, and nothing of it happened: asked again later it may be done.
  if (auto held = failure_told_.due(machine_.shard.now()))
    log_.error("the disk refuses the log", {{"why", appended.error().context}, {"suppressed", *held}});
  co_return fail(ErrorCode::degraded, "the disk refuses the log");
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the commit group outlives it
Task<Result<>> Committer::apply(Call call, ChangeGroup& group, std::vector<store::Entry> placed) {
  for (store::Entry& one : placed)
    if (auto applied = co_await indexer_.apply(call, std::move(one)); !applied)
      co_return fall_behind("the index cannot follow the log");
  if (auto written = co_await kv_.write(call, indexer_.take(segments_.end())); !written)
    co_return fall_behind("the index cannot be written");
  ledger_.home().publish_totals();
  if (ledger_.told_)
    for (const auto& [name, state] : group.names)
      if (state.manifest) ledger_.told_(*state.manifest);
  co_return Result<>{};
}

std::unexpected<Error> Committer::fall_behind(const char* why) noexcept {
  indexer_.forget();
  fence(why);
  return fail(ErrorCode::degraded, why);
}

void Committer::fence(const char* why) noexcept {
  if (ledger_.status().fenced.exchange(true)) return;
  log_.error("writes are fenced until the next start", {{"why", why}});
}

}  // namespace cairn::index
