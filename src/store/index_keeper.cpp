#include "store/index_keeper.h"

#include "crypto/outboard.h"
#include "runtime/wait.h"
#include "store/committer.h"
#include "store/compactor.h"
#include "store/index_place.h"
#include "store/kv_walk.h"
#include "store/scrubber.h"

namespace cairn::store {
namespace {

constexpr Duration look_every = Duration::millis(100);
constexpr Duration after_failure = Duration::seconds(10);
constexpr Duration no_room_pause = Duration::seconds(60);
constexpr Duration step = Duration::millis(10);
// About how much disk an entry takes; as much again while the tables are merged.
constexpr std::uint64_t bytes_per_object = 300, bytes_per_part = 200;
// A new index follows the log until so few records are left that writers hardly wait for them.
constexpr std::uint64_t few_records = 1000;
constexpr int rounds_most = 10;

}  // namespace

IndexKeeper::IndexKeeper(HomeParts& parts, Committer& committer, Compactor& compactor, Scrubber& scrubber)
    : parts_(parts),
      committer_(committer),
      compactor_(compactor),
      scrubber_(scrubber),
      seats_(parts.machine.pool) {}

Task<> IndexKeeper::index_loop(Call call) {
  StoreStatus& status = parts_.store.status();
  bool told = false;
  while (!call.stopped()) {
    if (!status.index_damaged) {
      told = false;
      (void)co_await sleep_for(call, look_every);
      continue;
    }
    if (!told) parts_.log.error("the index is damaged: a new one is made from the log beside it");
    told = true;
    const auto made = co_await replace_index(call);
    if (made || call.stopped()) continue;
    const bool full = made.error().code == ErrorCode::storage_full;
    if (!status.index_lacks_room.exchange(full) && full)
      parts_.log.error(
          "there is no room for a second index: it is made anew at the next start, or when there is");
    if (!full) parts_.log.warn("the index could not be made anew", {{"why", made.error().context}});
    (void)co_await sleep_for(call, full ? no_room_pause : after_failure);
  }
}

Task<Result<>> IndexKeeper::replace_index(Call call) {
  const std::string& store = parts_.store.options().directory;
  // An earlier run of this task may have left one.
  if (const auto left = std::move(rebuild_)) (void)co_await left->close(call);
  if (retired_) CO_TRY_VOID(co_await retire_index(call));
  CO_TRY_VOID(co_await mark_index_damaged(call, parts_.machine, store));
  CO_TRY_VOID(co_await find_room_for_index(call));
  while (compactor_.compacting()) CO_TRY_VOID(co_await sleep_for(call, step));
  const std::uint64_t number = parts_.store.index_number() + 1;
  const IndexRebuild::Sources sources{parts_.machine, parts_.store.kv_maker(), *parts_.segments,
                                      *parts_.files, parts_.store.cache()};
  rebuild_ = std::make_unique<IndexRebuild>(sources, number, index_path(store, number), committer_.indexed());
  const Result<> made = co_await make_index(call);
  if (!made) {
    // Stopped: the committer may be about to take the new index over. close() sees to it.
    if (call.stopped()) co_return made;
    (void)co_await rebuild_->close(call);
    rebuild_.reset();
    (void)co_await parts_.store.kv_maker().destroy(call, parts_.machine, index_path(store, number));
    co_return made;
  }
  for (const Damage& damage : rebuild_->damaged) scrubber_.note_damage(damage);
  rebuild_.reset();
  parts_.log.info("a new index is in use", {{"objects", parts_.indexer->totals().objects}});
  if (auto unmarked = co_await unmark_index_damaged(call, parts_.machine, store); !unmarked)
    parts_.log.warn("the next start makes the index anew once more", {{"why", unmarked.error().context}});
  if (auto retired = co_await retire_index(call); !retired && !call.stopped())
    parts_.log.warn("the old index stays until the next start", {{"why", retired.error().context}});
  co_return Result<>{};
}

Task<Result<>> IndexKeeper::find_room_for_index(Call call) {
  const Totals& now = parts_.indexer->totals();
  const std::uint64_t entries =
      now.objects * bytes_per_object + now.bytes / crypto::part_size * bytes_per_part;
  CO_TRY(const io::FreeSpace room,
         co_await parts_.machine.disk.free_space(call, parts_.store.options().directory));
  if (room.bytes < 2 * entries + parts_.store.options().reserve)
    co_return fail(ErrorCode::storage_full, "there is no room for a second index");
  co_return Result<>{};
}

Task<Result<>> IndexKeeper::make_index(Call call) {
  CO_TRY_VOID(co_await rebuild_->open(call));
  CO_TRY_VOID(co_await rebuild_->make(call));
  if (auto kept = co_await keep_lost(call); !kept) {
    if (call.stopped() || kept.error().code != ErrorCode::degraded) co_return kept;
    parts_.log.error(
        "which objects are lost cannot be read from the damaged index: they answer as if never stored");
  }
  for (int round = 0; round < rounds_most; ++round) {
    CO_TRY(const std::uint64_t records, co_await rebuild_->follow(call));
    if (records < few_records) break;
  }
  CO_TRY_VOID(co_await rebuild_->flush(call));
  CO_TRY_VOID(co_await committer_.submit(call, std::make_unique<Mutation>(Mutation::Kind::adopt_index)));
  co_return Result<>{};
}

Task<Result<>> IndexKeeper::keep_lost(Call call) {
  KvWalk walk(*parts_.kv, quarantine_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) co_return Result<>{};
    for (const KvPair& pair : found) {
      QuarantineRecord word;
      if (!decode(as_bytes(pair.value), word))
        co_return fail(parts_.kv->distrust("a word on quarantine does not decode"));
      CO_TRY(const auto known, co_await parts_.indexer->object(call, word.address));
      if (!known || known->origin != word.object || !known->quarantined()) continue;
      CO_TRY(const auto there, co_await rebuild_->indexer().object(call, word.address));
      if (!there) rebuild_->indexer().keep_lost(word.address, *known, word);
    }
  }
}

// Called by the committer, between two commit groups [OH-6].
Task<Result<>> IndexKeeper::adopt_index(Call call) {
  if (!rebuild_ || !rebuild_->is_made()) co_return fail(ErrorCode::cancelled, "no index was made");
  CO_TRY_VOID(co_await rebuild_->follow(call));
  retired_ = parts_.store.index();
  parts_.store.set_index(rebuild_->release());
  parts_.kv->renew();
  parts_.indexer->become(std::move(rebuild_->indexer()));
  parts_.absent = parts_.segments_of_index_alone();
  parts_.store.status().index_behind = false;
  parts_.store.status().index_damaged = false;
  parts_.store.status().index_lacks_room = false;
  parts_.publish_totals();
  co_return Result<>{};
}

// Ports let go of the old index with their next question, or when they are told. A mailbox may be full, so
// they are told again.
Task<Result<>> IndexKeeper::retire_index(Call call) {
  while (retired_.use_count() > 1) {
    parts_.store.renew_index_ports();
    CO_TRY_VOID(co_await sleep_for(call, step));
  }
  // The old index is not needed: changes that it could not write are not missed.
  (void)co_await retired_->engine->close(call, parts_.machine);
  const std::string directory = index_path(parts_.store.options().directory, retired_->number);
  retired_.reset();
  co_return co_await parts_.store.kv_maker().destroy(call, parts_.machine, directory);
}

Task<> IndexKeeper::close(Call call) {
  if (rebuild_) (void)co_await rebuild_->close(call);
  if (retired_) (void)co_await retired_->engine->close(call, parts_.machine);
}

}  // namespace cairn::store
