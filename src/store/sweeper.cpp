#include "store/sweeper.h"

#include <algorithm>

#include "runtime/wait.h"
#include "store/committer.h"
#include "store/compactor.h"
#include "store/kv_walk.h"
#include "store/scrubber.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr Duration sweep_pause = Duration::seconds(30);
constexpr Duration name_pause = Duration::seconds(1);

}  // namespace

Sweeper::Sweeper(HomeParts& parts, Committer& committer, Compactor& compactor, Scrubber& scrubber)
    : parts_(parts),
      committer_(committer),
      compactor_(compactor),
      scrubber_(scrubber),
      seats_(parts.machine.pool) {}

void Sweeper::open() { told_lost_.insert(parts_.segments->lost().begin(), parts_.segments->lost().end()); }

Task<> Sweeper::sweep_loop(Call call) {
  while (!call.stopped()) {
    if (auto swept = co_await sweep_once(call); !swept && !call.stopped())
      parts_.log.warn("sweeping of uploads failed", {{"why", swept.error().context}});
    if (auto looked = co_await look_at_files_once(call); !looked && !call.stopped())
      parts_.log.warn("the files of the log were not looked at", {{"why", looked.error().context}});
    if (std::exchange(accept_now_, false)) {
      if (auto done = co_await accept_losses_once(call); !done && !call.stopped())
        parts_.log.warn("the loss was not accepted", {{"why", done.error().context}});
    } else {
      // Objects that could not be named yet are tried again soon, but not at once: their directory may be
      // gone.
      (void)co_await ListWait(call.within(name_now_ ? name_pause : sweep_pause), asked_, "sweep");
    }
  }
}

Task<Result<>> Sweeper::sweep_once(Call call) {
  if (parts_.store.status().index_damaged) co_return Result<>{};
  KvWalk walk(*parts_.kv, upload_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) co_return Result<>{};
    for (const KvPair& pair : found) {
      UploadEntry entry;
      if (!decode(as_bytes(pair.value), entry) || entry.expires > parts_.machine.shard.wall()) continue;
      auto mutation = std::make_unique<Mutation>(Mutation::Kind::expire);
      mutation->token = token_of(pair.key);
      CO_TRY_VOID(co_await committer_.submit(call, std::move(mutation)));
    }
  }
}

void Sweeper::note_lost() {
  for (const std::uint32_t segment : parts_.segments->lost()) {
    if (!told_lost_.insert(segment).second) continue;
    parts_.log.error("a segment was taken away under the store: what is in it is lost",
                     {{"segment", segment}});
    vanished_.push_back({segment, 0, 0xffff'ffffu, 0, 0, false, true});
    // From now on readers find the same as after the next start.
    parts_.files->forget(segment);
    parts_.store.forget_segment(segment);
    name_now_ = true;
  }
  if (!name_now_) return;
  parts_.absent = parts_.segments_of_index_alone();
  parts_.publish_totals();
  while (!asked_.empty()) wake(asked_.front());
}

Task<Result<>> Sweeper::name_vanished(Call call) {
  name_now_ = false;
  while (!vanished_.empty()) {
    CO_TRY_VOID(co_await scrubber_.quarantine_damage(call, vanished_.front()));
    vanished_.erase(vanished_.begin());
  }
  co_return Result<>{};
}

Task<Result<>> Sweeper::look_at_files_once(Call call) {
  const std::vector<SegmentInfo> known =
      parts_.segments->segments();  // those that are begun meanwhile are not meant
  io::Machine upkeep = parts_.machine.for_upkeep();
  auto names = co_await upkeep.disk.list(call, parts_.store.segment_directory());
  if (!names && names.error().code != ErrorCode::not_found) co_return fail(names.error());
  std::set<std::uint32_t> there;
  bool ours = false;
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (const auto id = parse_segment_name(name)) there.insert(*id);
    ours = ours || name == "key";
  }
  ours = ours || std::any_of(known.begin(), known.end(),
                             [&](const SegmentInfo& one) { return there.contains(one.id); });
  // Another directory is in place of the log's, or none. The log's may come back, and nothing may be written
  // there.
  if (!ours) parts_.fence("the directory of the log is gone");
  if (!ours) co_return Result<>{};
  for (const SegmentInfo& one : known)
    if (!there.contains(one.id) && compactor_.victim() != one.id) parts_.segments->lose(one.id);
  note_lost();
  co_return co_await name_vanished(call);
}

void Sweeper::start_accepting() noexcept {
  accept_now_ = true;
  while (!asked_.empty()) wake(asked_.front());
}

Task<Result<>> Sweeper::accept_losses_once(Call call) {
  KvWalk walk(*parts_.kv, quarantine_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) break;
    for (const KvPair& pair : found) {
      QuarantineRecord record;
      if (!decode(as_bytes(pair.value), record) || !is_gone(record)) continue;
      for (const Mutation::Kind kind : {Mutation::Kind::pin, Mutation::Kind::remove}) {
        auto mutation = std::make_unique<Mutation>(kind);
        mutation->address = record.address;
        auto done = co_await committer_.submit(call, std::move(mutation));
        if (!done && done.error().code != ErrorCode::not_found) co_return fail(done.error());
      }
      parts_.log.warn("a lost object is given up", {{"address", format_address(record.address)}});
    }
  }
  CO_TRY_VOID(co_await parts_.segments->accept_losses(call));
  parts_.store.status().lossy = false;
  parts_.publish_totals();
  parts_.log.warn("what was lost is accepted, and no longer told");
  co_return Result<>{};
}

}  // namespace cairn::store
