#include "store/rocks_kv.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include "runtime/guarded.h"
#include "runtime/pool.h"
#include "runtime/semaphore.h"
#include "runtime/wait.h"
#include "store/key_filter.h"
#include "store/recent_changes.h"

namespace cairn::store {
namespace {

constexpr unsigned database_rank = 23;
constexpr unsigned recent_rank = 26;
constexpr std::uint64_t bytes_per_known_key =
    6;  // of RocksOptions::cache_bytes, a third of which the filter takes
constexpr std::size_t learn_at_once = 4096;  // keys, a few hundred microseconds
constexpr std::uint64_t recent_share = 16;   // of a memtable, what is handed to RocksDB at once

rocksdb::Slice slice(std::string_view text) noexcept { return {text.data(), text.size()}; }

Error error_of(const rocksdb::Status& status, const char* context) noexcept {
  if (status.IsIncomplete()) return {ErrorCode::busy, context};
  if (status.IsNoSpace()) return {ErrorCode::storage_full, context};
  // A file that the manifest names and the disk has not is damage too.
  if (status.IsCorruption() || status.IsPathNotFound()) return {ErrorCode::integrity, context};
  if (status.IsShutdownInProgress()) return {ErrorCode::closed, context};
  return {ErrorCode::io_failed, context};
}
Result<> result_of(const rocksdb::Status& status, const char* context) noexcept {
  if (!status.ok()) return fail(error_of(status, context));
  return {};
}

// RocksDB writes a diary beside its files unless it is given another place for it.
class NoDiary final : public rocksdb::Logger {
 public:
  NoDiary() : Logger(rocksdb::InfoLogLevel::FATAL_LEVEL) {}
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// Rows beside blocks: keys are spread evenly, so that a hot key is alone in its block, and a block is forty
// times the row.
struct Caches {
  explicit Caches(std::uint64_t bytes)
      : blocks(rocksdb::NewLRUCache(bytes / 2, 4, false, 0.5)), rows(rocksdb::NewLRUCache(bytes / 2, 4)) {}
  std::shared_ptr<rocksdb::Cache> blocks, rows;
};

rocksdb::Options database_options(const RocksOptions& wanted, const Caches& caches) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = caches.blocks;
  table.format_version = 5;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  // Filters and indexes are read in pieces and count as cache: a map of any size stays within its memory.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;

  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.row_cache = caches.rows;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.write_buffer_size = wanted.write_buffer_bytes;
  options.max_write_buffer_number = 3;
  options.memtable_whole_key_filtering = true;
  options.memtable_prefix_bloom_size_ratio = 0.02;
  // A key looks for its place from where the last one with the same first bytes went. RocksDB has this only
  // where one batch is written at a time, which is all we do.
  options.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(2));
  options.allow_concurrent_memtable_write = false;
  options.target_file_size_base = wanted.write_buffer_bytes;
  options.max_bytes_for_level_base = 4 * wanted.write_buffer_bytes;
  options.level_compaction_dynamic_level_bytes = true;
  options.compression = rocksdb::kNoCompression;  // keys are hashes, values are places: nothing to gain
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  options.max_manifest_file_size = 8u << 20;
  options.bytes_per_sync = 1u << 20;
  options.avoid_flush_during_shutdown = true;  // close() flushes; anything else is a crash
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.info_log = std::make_shared<NoDiary>();
  return options;
}

// The open database, and who is inside it. A job whose waiter left may still be running when the map is
// closed: closing waits for it, and one that comes later finds the door shut.
class Database {
 public:
  Database(std::unique_ptr<rocksdb::DB> db, Caches caches, const RocksOptions& wanted, std::uint64_t seed)
      : here_(db.get()),
        caches_(std::move(caches)),
        recent_bytes_(wanted.write_buffer_bytes / recent_share),
        state_(std::move(db)),
        recent_(seed, wanted.cache_bytes / bytes_per_known_key) {}

  // For what never waits, on a shard. Precondition: not closed.
  rocksdb::DB& here() const noexcept { return *here_; }

  // f(rocksdb::DB&), on a pool thread: `closed` after close().
  template <class F>
  std::invoke_result_t<F, rocksdb::DB&> use(F f) {
    rocksdb::DB* db = state_.with([](State& state) {
      if (state.db != nullptr) ++state.users;
      return state.db.get();
    });
    if (db == nullptr) return fail(ErrorCode::closed, "map");
    auto outcome = f(*db);
    state_.with([](State& state) { --state.users; });
    left_.notify_all();
    return outcome;
  }

  // --- what RocksDB does not have yet. On a shard:
  // The error of the engine when it refused what came before.
  Result<> add(KvBatch batch) {
    return recent_.with([&](Recent& recent) -> Result<> {
      if (!recent.handed_over) return recent.handed_over;
      for (const KvBatch::Change& change : batch.changes())
        if (change.value) recent.known.add(change.key);
      recent.changes.add(std::move(batch));
      return {};
    });
  }
  // Nothing: RocksDB knows. The inner nothing: it is not there.
  std::optional<RecentChanges::Value> find_recent(std::string_view key) const {
    return recent_.with([&](const Recent& recent) -> std::optional<RecentChanges::Value> {
      auto found = recent.changes.find(key);
      if (!found && recent.learned && !recent.known.may_have(key)) found.emplace();
      return found;
    });
  }
  bool may_learn() const {
    return recent_.with([](const Recent& recent) { return !recent.learned && !recent.learning; });
  }
  bool is_due() const { return open_bytes() >= recent_bytes_; }
  // How the last hand-over went.
  Result<> handed_over() const {
    return recent_.with([](const Recent& recent) { return recent.handed_over; });
  }
  // The engine does not keep up.
  bool is_full() const { return open_bytes() >= 2 * recent_bytes_; }

  // --- on a pool thread:
  // What was written so far goes to RocksDB, all in one batch: there is no moment at which a crash could keep
  // a part of it.
  Result<> hand_over(rocksdb::DB& db) {
    const auto table = recent_.wait(
        handed_, [](const Recent& recent) { return !recent.handing; },
        [](Recent& recent) {
          auto closed = recent.changes.begin();
          recent.handing = closed != nullptr;
          return closed;
        });
    if (table == nullptr) return {};
    rocksdb::WriteBatch batch;
    Result<> done;
    for (const auto* change : in_order(*table)) {
      const auto& [key, value] = *change;
      done = result_of(value ? batch.Put(slice(key), slice(*value)) : batch.Delete(slice(key)), "write map");
      if (!done) break;
    }
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    if (done) done = result_of(db.Write(options, &batch), "write map");
    recent_.with([&](Recent& recent) {
      recent.handing = false;
      recent.handed_over = done;
      if (!done) return;
      recent.changes.end();
      ++recent.rounds;
    });
    handed_.notify_all();
    return done;
  }
  // Some more of the keys that were there before this process go into the filter; what is written since is in
  // it anyway. After an error, or when they are too many, it is left as it is, and RocksDB asked about every
  // key.
  Result<> learn(rocksdb::DB& db) {
    const auto from = recent_.with([](Recent& recent) -> std::optional<std::string> {
      if (recent.learned || std::exchange(recent.learning, true)) return std::nullopt;
      return recent.learned_until;
    });
    if (!from) return {};
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
    std::vector<std::string> keys;
    for (at->Seek(slice(*from)); at->Valid() && keys.size() < learn_at_once; at->Next())
      keys.push_back(at->key().ToString());
    TRY_VOID(result_of(at->status(), "scan map"));
    recent_.with([&](Recent& recent) {
      for (const std::string& key : keys) recent.known.add(key);
      recent.learning = recent.known.full();
      recent.learned = keys.size() < learn_at_once;
      if (!keys.empty()) recent.learned_until = keys.back() + '\0';
    });
    return {};
  }
  Result<> flush(rocksdb::DB& db) {
    TRY_VOID(hand_over(db));  // what was closed and not taken
    TRY_VOID(hand_over(db));
    rocksdb::FlushOptions options;
    options.allow_write_stall = true;  // a flush must not wait for its turn
    return result_of(db.Flush(options), "flush map");
  }
  Result<std::vector<KvPair>> scan(rocksdb::DB& db, std::string_view from, std::string_view until,
                                   std::size_t limit) const;
  // Lets go of the files whatever the outcome.
  Result<> close() {
    Result<> flushed = use([this](rocksdb::DB& db) { return flush(db); });
    std::unique_ptr<rocksdb::DB> db;
    state_.wait(
        left_, [](const State& state) { return state.users == 0; },
        [&](State& state) { db = std::move(state.db); });
    if (db == nullptr) return flushed;
    Result<> closed = result_of(db->Close(), "close map");
    return flushed ? closed : flushed;
  }
  std::uint64_t memory() const noexcept {
    const std::uint64_t recent =
        recent_.with([](const Recent& now) { return now.changes.bytes() + now.known.bytes(); });
    return state_.with([&](const State& state) -> std::uint64_t {
      std::uint64_t tables = 0;
      if (state.db == nullptr) return 0;
      (void)state.db->GetIntProperty(rocksdb::DB::Properties::kSizeAllMemTables, &tables);
      return recent + tables + caches_.blocks->GetUsage() + caches_.rows->GetUsage();
    });
  }

 private:
  struct State {
    explicit State(std::unique_ptr<rocksdb::DB> opened) noexcept : db(std::move(opened)) {}
    std::unique_ptr<rocksdb::DB> db;  // none: closed
    std::size_t users = 0;
  };
  struct Recent {
    Recent(std::uint64_t seed, std::uint64_t keys) : changes(seed), known(keys, seed) {}
    RecentChanges changes;
    KeyFilter known;       // keys that are or were in the map
    bool learned = false;  // all of them
    bool learning = false;
    std::string learned_until;
    bool handing = false;  // to the engine, on some thread
    Result<> handed_over;  // how the last time went
    std::uint64_t rounds = 0;
  };
  std::uint64_t open_bytes() const {
    return recent_.with([](const Recent& recent) { return recent.changes.open_bytes(); });
  }

  rocksdb::DB* here_;
  Caches caches_;
  std::uint64_t recent_bytes_;
  Guarded<State, database_rank> state_;
  Condition left_;
  Guarded<Recent, recent_rank> recent_;
  Condition handed_;
};
using SharedDatabase = std::shared_ptr<Database>;

Result<std::optional<std::string>> get_from(rocksdb::DB& db, std::string_view key, rocksdb::ReadTier tier) {
  rocksdb::ReadOptions options;
  options.read_tier = tier;
  rocksdb::PinnableSlice value;
  const rocksdb::Status status = db.Get(options, db.DefaultColumnFamily(), slice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return fail(error_of(status, "map"));
  return std::optional<std::string>(std::in_place, value.data(), value.size());
}

// What is recent goes over what RocksDB has. Both are seen as of one moment: when something was handed over
// in between, once more.
Result<std::vector<KvPair>> Database::scan(rocksdb::DB& db, std::string_view from, std::string_view until,
                                           std::size_t limit) const {
  std::vector<KvPair> out;
  if (from >= until) return out;
  const rocksdb::Slice end = slice(until);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &end;
  options.fill_cache = false;  // one long list would push out what every request looks for
  std::map<std::string, RecentChanges::Value> recent;
  std::unique_ptr<rocksdb::Iterator> at;
  const auto rounds = [this] { return recent_.with([](const Recent& now) { return now.rounds; }); };
  std::uint64_t round = 0;
  do {
    round = recent_.with([&](const Recent& now) {
      recent = now.changes.range(from, until);
      return now.rounds;
    });
    at.reset(db.NewIterator(options));
  } while (rounds() != round);
  auto newer = recent.begin();
  at->Seek(slice(from));
  while (out.size() < limit && (at->Valid() || newer != recent.end())) {
    const int order = !at->Valid() ? 1 : newer == recent.end() ? -1 : at->key().compare(slice(newer->first));
    if (order >= 0) {
      if (newer->second) out.push_back({newer->first, *newer->second});
      ++newer;
    } else {
      out.push_back({at->key().ToString(), at->value().ToString()});
    }
    if (order <= 0) at->Next();
  }
  TRY_VOID(result_of(at->status(), "scan map"));
  return out;
}

class RocksPort final : public Kv {
 public:
  RocksPort(SharedDatabase database, Shard& shard, Pool& pool) noexcept
      : database_(std::move(database)), pool_(pool), turn_(shard, 1) {}
  ~RocksPort() override {
    if (handing_over_ == nullptr) return;
    if (pool_.try_withdraw(Lane::cpu, *handing_over_))
      delete handing_over_;
    else
      handing_over_->port = nullptr;
  }

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    if (auto recent = database_->find_recent(key)) return std::move(*recent);
    return get_from(database_->here(), key, rocksdb::kBlockCacheTier);
  }

  Task<Result<std::optional<std::string>>> get(Call call, std::string key) override {
    auto found = try_get(key);
    if (found || found.error().code != ErrorCode::busy) co_return found;
    co_return co_await run(pool_, call, Lane::read, [database = database_, key = std::move(key)] {
      return database->use([&](rocksdb::DB& db) { return get_from(db, key, rocksdb::kReadAllTier); });
    });
  }

  Task<Result<std::vector<KvPair>>> scan(Call call, std::string from, std::string until,
                                         std::size_t limit) override {
    return run(
        pool_, call, Lane::read,
        [database = database_, from = std::move(from), until = std::move(until), limit] {
          return database->use([&](rocksdb::DB& db) { return database->scan(db, from, until, limit); });
        });
  }

  Task<Result<>> write(Call call, KvBatch batch) override {
    CO_TRY(const Permit turn, co_await turn_.acquire(call));  // K-1
    while (database_->is_full()) {
      CO_TRY_VOID(database_->handed_over());  // waiting for an engine that refuses would never end
      start_handing_over();
      CO_TRY_VOID(co_await sleep_for(call, Duration::millis(1)));
    }
    CO_TRY_VOID(database_->add(std::move(batch)));
    if (database_->is_due() || database_->may_learn()) start_handing_over();
    co_return Result<>{};
  }

  Task<Result<>> flush(Call call) override {
    return run(pool_, call, Lane::commit, [database = database_] {
      return database->use([&](rocksdb::DB& db) { return database->flush(db); });
    });
  }

 private:
  // Nobody waits for it: the next write is told if it failed.
  class HandOver final : public PoolJob {
   public:
    HandOver(RocksPort& of, Pool& pool) noexcept : PoolJob(pool), port(&of), database_(of.database_) {}
    void work() noexcept override {
      (void)database_->use([this](rocksdb::DB& db) -> Result<> {
        (void)database_->learn(db);  // whoever asks RocksDB is told what is wrong with it
        if (database_->is_due()) TRY_VOID(database_->hand_over(db));
        return {};
      });
    }
    void completed() noexcept override {
      if (port != nullptr) port->handing_over_ = nullptr;
      delete this;
    }
    RocksPort* port;  // none: it is gone

   private:
    SharedDatabase database_;
  };
  // When the lane is full, the next write asks again.
  void start_handing_over() {
    if (handing_over_ != nullptr) return;
    auto job = std::make_unique<HandOver>(*this, pool_);
    if (pool_.try_submit(Lane::cpu, *job)) handing_over_ = job.release();
  }

  SharedDatabase database_;
  Pool& pool_;
  Semaphore turn_;
  HandOver* handing_over_ = nullptr;  // deletes itself
};

class RocksEngine final : public KvEngine {
 public:
  explicit RocksEngine(SharedDatabase database) noexcept : database_(std::move(database)) {}

  std::unique_ptr<Kv> make_port(io::Machine& machine) override {
    return std::make_unique<RocksPort>(database_, machine.shard, machine.pool);
  }
  std::uint64_t memory() const noexcept override { return database_->memory(); }
  Task<Result<>> close(Call call, io::Machine& machine) override {
    return run(machine.pool, call, Lane::commit, [database = database_] { return database->close(); });
  }

 private:
  SharedDatabase database_;
};

Result<std::shared_ptr<KvEngine>> open_database(const RocksOptions& wanted, const std::string& directory,
                                                std::uint64_t seed) {
  Caches caches(wanted.cache_bytes);
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(database_options(wanted, caches), directory, &opened);
  // A format that this version does not know is no better than damage: the map can be made again.
  if (status.IsInvalidArgument() || status.IsNotSupported() || status.IsNotFound())
    return fail(ErrorCode::integrity, "open map");
  if (!status.ok()) return fail(error_of(status, "open map"));
  return std::make_shared<RocksEngine>(
      std::make_shared<Database>(std::unique_ptr<rocksdb::DB>(opened), std::move(caches), wanted, seed));
}

}  // namespace

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller's shard outlives it
Task<Result<std::shared_ptr<KvEngine>>> RocksKvMaker::open(Call call, io::Machine& machine,
                                                           std::string directory) {
  auto made = co_await machine.disk.make_directory(call, directory);
  if (!made && made.error().code != ErrorCode::conflict) co_return fail(made.error());
  // RocksDB makes its files durable, but not the directory they are in.
  const std::string parent = directory.substr(0, directory.find_last_of('/') + 1) + ".";
  CO_TRY_VOID(co_await machine.disk.sync_directory(call, parent));
  std::uint64_t seed = 0;
  machine.entropy.fill(std::as_writable_bytes(std::span(&seed, 1)));
  co_return co_await run(machine.pool, call, Lane::commit,
                         [options = options_, directory = std::move(directory), seed] {
                           return open_database(options, directory, seed);
                         });
}

Task<Result<>> RocksKvMaker::destroy(Call call, io::Machine& machine, std::string directory) {
  return run(machine.pool, call, Lane::commit, [directory = std::move(directory)] {
    rocksdb::Options options;
    options.info_log = std::make_shared<NoDiary>();
    const rocksdb::Status status = rocksdb::DestroyDB(directory, options);
    return status.IsPathNotFound() ? Result<>{} : result_of(status, "destroy map");
  });
}

}  // namespace cairn::store
