#include "store/rocks_database.h"

#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/metadata.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>

namespace cairn::store {
namespace {

// Of RocksOptions::cache_bytes, a third of which the filter takes.
constexpr std::uint64_t bytes_per_known_key = 6;
constexpr int looks_most = 4;                // beside hand-overs, before they have to wait
constexpr std::size_t learn_at_once = 4096;  // keys, a few hundred microseconds

// The size of a hand-over is the measure of all that RocksDB does on the disk: so on a small disk it is a
// small part of the disk.
constexpr std::uint64_t parts_of_disk = 2048;
constexpr std::uint64_t least_recent_bytes = 128u << 10;
// How many runs of level 0 are merged, slow the writer down, and stop it; and how much the level below holds.
constexpr int runs_to_merge = 4, runs_to_slow = 8, runs_most = 12;
constexpr int base_runs = 4;
// Counted in hand-overs: the runs of level 0, a merge of all of them with a level below that was not merged
// down for a while, and memtables on their way.
constexpr std::uint64_t room_in_runs = runs_most + (runs_most + 2 * base_runs) + 4;

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

// After a full disk RocksDB would look for room by itself every few seconds, and not accept a request to look
// meanwhile. We know when there may be room: a hand-over asks.
class ResumedByUs final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* by_itself) override {
    *by_itself = false;
  }
};

Result<std::optional<std::string>> get_from(rocksdb::DB& db, std::string_view key, rocksdb::ReadTier tier) {
  rocksdb::ReadOptions options;
  options.read_tier = tier;
  rocksdb::PinnableSlice value;
  const rocksdb::Status status = db.Get(options, db.DefaultColumnFamily(), slice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return fail(error_of(status, "map"));
  // For a table that is not open, RocksDB says in this tier that the key is there, and gives no value.
  if (tier == rocksdb::kBlockCacheTier && value.empty()) return fail(ErrorCode::busy, "map");
  return std::optional<std::string>(std::in_place, value.data(), value.size());
}

// Writes all changes in one batch. In order, each key goes behind the one before it, where RocksDB looks
// first.
Result<> write(rocksdb::DB& db, const ChangeTable& table) {
  rocksdb::WriteBatch batch(table.bytes());
  rocksdb::Status status;
  for (const ChangeTable::Change& change : in_order(table.changes())) {
    const auto value = change.value();
    status = value ? batch.Put(slice(change.key()), slice(*value)) : batch.Delete(slice(change.key()));
    if (!status.ok()) break;
  }
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  if (status.ok()) status = db.Write(options, &batch);
  // A writer that waits for room in level 0 learns of the error that ended its wait only from the status
  // text.
  if (status.IsIncomplete())
    return fail(status.ToString().find("No space left") != std::string::npos ? ErrorCode::storage_full
                                                                             : ErrorCode::io_failed,
                "write map");
  return result_of(status, "write map");
}

bool is_directory(rocksdb::Env& env, const std::string& path) {
  bool directory = false;
  return env.IsDirectory(path, &directory).ok() && directory;
}

// The bytes of changes that are handed over together, on this disk.
std::uint64_t recent_bytes_for(const RocksOptions& wanted, rocksdb::Env& env, const std::string& directory) {
  std::uint64_t room = 0;
  if (!env.GetFreeSpace(directory, &room).ok()) return wanted.recent_bytes;
  std::vector<rocksdb::Env::FileAttributes> files;
  if (env.GetChildrenFileAttributes(directory, &files).ok())
    for (const auto& file : files) room += file.size_bytes;
  return std::min(wanted.recent_bytes, std::max(room / parts_of_disk, least_recent_bytes));
}

// Whether some table that the manifest names has the change of this number, or a later one.
bool is_in_tables(rocksdb::DB& db, rocksdb::SequenceNumber number) {
  std::vector<rocksdb::LiveFileMetaData> tables;
  db.GetLiveFilesMetaData(&tables);
  return std::any_of(tables.begin(), tables.end(),
                     [&](const rocksdb::LiveFileMetaData& one) { return one.largest_seqno >= number; });
}

// Whether something that is no part of the map has a name that the map needs.
bool is_blocked(rocksdb::Env& env, const std::string& directory) {
  return (env.FileExists(directory).ok() && !is_directory(env, directory)) ||
         is_directory(env, directory + "/LOCK");
}

}  // namespace

RocksDatabase::Caches::Caches(std::uint64_t bytes)
    : blocks(rocksdb::NewLRUCache(bytes / 2, 4, false, 0.5)), rows(rocksdb::NewLRUCache(bytes / 2, 4)) {}

rocksdb::Options RocksDatabase::options_for(const RocksOptions& wanted, const Caches& caches) {
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
  if (wanted.files != nullptr) options.env = wanted.files;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.row_cache = caches.rows;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  // One hand-over is one memtable, so that it meets an empty one and goes to the disk as one table.
  options.write_buffer_size = wanted.recent_bytes;
  options.max_write_buffer_number = 3;
  options.memtable_whole_key_filtering = true;
  options.memtable_prefix_bloom_size_ratio = 0.02;
  // A key looks for its place from where the last one with the same first bytes went. RocksDB has this only
  // where one batch is written at a time, which is all we do.
  options.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(1));
  options.allow_concurrent_memtable_write = false;
  // More runs to look through, nearly all ruled out by filters, for half of the rewriting.
  options.level0_file_num_compaction_trigger = runs_to_merge;
  options.level0_slowdown_writes_trigger = runs_to_slow;
  options.level0_stop_writes_trigger = runs_most;
  options.target_file_size_base = 2 * wanted.recent_bytes;
  options.max_bytes_for_level_base = base_runs * wanted.recent_bytes;
  options.ttl = 0;  // nothing is merged only because it is old
  options.periodic_compaction_seconds = 0;
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
  options.listeners.push_back(std::make_shared<ResumedByUs>());
  return options;
}

// RocksDB's threads are for all databases of a process, and one of them asks for no more than one would need.
RocksDatabase::Share::Share(std::shared_ptr<std::atomic<int>> open, rocksdb::Env& env)
    : open_(std::move(open)) {
  const int count = ++*open_;
  for (const auto threads : {rocksdb::Env::LOW, rocksdb::Env::HIGH})
    env.IncBackgroundThreadsIfNeeded(count, threads);
}

RocksDatabase::RocksDatabase(std::unique_ptr<Share> share, std::unique_ptr<rocksdb::DB> db, Caches caches,
                             const RocksOptions& wanted, std::uint64_t seed)
    : share_(std::move(share)),
      here_(db.get()),
      caches_(std::move(caches)),
      recent_bytes_(wanted.recent_bytes),
      state_(std::move(db)),
      recent_(seed, wanted.cache_bytes / bytes_per_known_key) {}

Result<std::shared_ptr<RocksDatabase>> RocksDatabase::open(const RocksOptions& asked,
                                                           const std::string& directory, std::uint64_t seed) {
  Caches caches(asked.cache_bytes);
  rocksdb::DB* opened = nullptr;
  rocksdb::Env& env = asked.files == nullptr ? *rocksdb::Env::Default() : *asked.files;
  RocksOptions wanted = asked;
  wanted.recent_bytes = recent_bytes_for(asked, env, directory);
  const rocksdb::Options options = options_for(wanted, caches);
  // No answer waits for flushes and compactions, until there is no room for more. Then the writer waits for
  // them, which leaves them its core. On a small disk that is often so.
  if (wanted.recent_bytes == asked.recent_bytes)
    for (const auto threads : {rocksdb::Env::LOW, rocksdb::Env::HIGH})
      (void)env.LowerThreadPoolCPUPriority(threads, rocksdb::CpuPriority::kLow);
  if (is_blocked(*options.env, directory)) return fail(ErrorCode::integrity, "open map");
  auto share = std::make_unique<Share>(wanted.open, env);
  const rocksdb::Status status = rocksdb::DB::Open(options, directory, &opened);
  // A format that this version does not know is no better than damage: the map can be made again.
  if (status.IsInvalidArgument() || status.IsNotSupported() || status.IsNotFound())
    return fail(ErrorCode::integrity, "open map");
  if (!status.ok()) return fail(error_of(status, "open map"));
  return std::shared_ptr<RocksDatabase>(new RocksDatabase(
      std::move(share), std::unique_ptr<rocksdb::DB>(opened), std::move(caches), wanted, seed));
}

Result<> RocksDatabase::destroy(const std::string& directory) {
  rocksdb::Options options;
  options.info_log = std::make_shared<NoDiary>();
  if (is_blocked(*options.env, directory)) {
    const std::string lock = directory + "/LOCK";
    const rocksdb::Status gone = is_directory(*options.env, directory) ? options.env->DeleteDir(lock)
                                                                       : options.env->DeleteFile(directory);
    if (!gone.ok()) return result_of(gone, "destroy map");
  }
  const rocksdb::Status status = rocksdb::DestroyDB(directory, options);
  return status.IsPathNotFound() ? Result<>{} : result_of(status, "destroy map");
}

Result<> RocksDatabase::close() {
  Result<> flushed = use([this](rocksdb::DB& db) { return flush(db); });
  std::unique_ptr<rocksdb::DB> db;
  state_.wait(
      left_, [](const State& state) { return state.users == 0; },
      [&](State& state) { db = std::move(state.db); });
  if (db == nullptr) return flushed;
  Result<> closed = result_of(db->Close(), "close map");
  return flushed ? closed : flushed;
}

std::uint64_t RocksDatabase::memory() const noexcept {
  const std::uint64_t recent =
      recent_.with([](const Recent& now) { return now.changes.bytes() + now.known.bytes(); });
  return state_.with([&](const State& state) -> std::uint64_t {
    std::uint64_t tables = 0;
    if (state.db == nullptr) return 0;
    (void)state.db->GetIntProperty(rocksdb::DB::Properties::kSizeAllMemTables, &tables);
    return recent + tables + caches_.blocks->GetUsage() + caches_.rows->GetUsage();
  });
}

std::uint64_t RocksDatabase::room() const noexcept { return room_in_runs * recent_bytes_; }

// --- writing

void RocksDatabase::add(const KvBatch& batch) {
  recent_.with([&](Recent& recent) {
    for (const KvBatch::Change& change : batch.changes())
      if (change.value) recent.known.add(change.key);
    recent.changes.add(batch);
  });
}

Result<> RocksDatabase::handed_over() const {
  return recent_.with([](const Recent& recent) { return recent.handed_over; });
}

std::uint64_t RocksDatabase::open_bytes() const {
  return recent_.with([](const Recent& recent) { return recent.changes.open_bytes(); });
}

void RocksDatabase::resume_if_full(rocksdb::DB& db) const {
  if (const Result<> last = handed_over(); !last && last.error().code == ErrorCode::storage_full)
    (void)db.Resume();  // the next hand-over says whether that helped
}

Result<> RocksDatabase::hand_over(rocksdb::DB& db) {
  const auto table = recent_.wait(
      handed_, [](const Recent& recent) { return !recent.handing; },
      [](Recent& recent) {
        auto closed = recent.changes.begin();
        recent.handing = closed != nullptr;
        return closed;
      });
  if (table == nullptr) return {};
  resume_if_full(db);
  const Result<> done = write(db, *table);
  if (!done && done.error().code == ErrorCode::storage_full) met_full_ = true;
  const auto ended = recent_.with([&](Recent& recent) {
    recent.handing = false;
    recent.handed_over = done;
    return done ? recent.changes.end() : nullptr;
  });
  handed_.notify_all();
  return done;
}

Result<> RocksDatabase::flush(rocksdb::DB& db) {
  TRY_VOID(hand_over(db));  // a closed table that was not taken
  TRY_VOID(hand_over(db));
  rocksdb::FlushOptions options;
  options.allow_write_stall = true;  // a flush must not wait for its turn
  const rocksdb::SequenceNumber written = db.GetLatestSequenceNumber();
  rocksdb::Status status = db.Flush(options);
  if (status.IsNoSpace()) met_full_ = true;
  // RocksDB may not have seen room that came back: it is told to look once.
  if (status.IsNoSpace() && db.Resume().ok()) status = db.Flush(options);
  TRY_VOID(result_of(status, "flush map"));
  // After a full disk RocksDB may report success before its manifest has the last table.
  if (met_full_ && !is_in_tables(db, written)) return fail(ErrorCode::storage_full, "flush map");
  return {};
}

// --- reading

Result<std::optional<std::string>> RocksDatabase::try_get(std::string_view key) const {
  auto recent = recent_.with([&](const Recent& now) -> std::optional<RecentChanges::Value> {
    if (now.learned && !now.known.may_have(key)) return RecentChanges::Value();
    return now.changes.find(key);
  });
  if (recent) return std::move(*recent);
  return get_from(*here_, key, rocksdb::kBlockCacheTier);
}

Result<std::optional<std::string>> RocksDatabase::get(rocksdb::DB& db, std::string_view key) {
  return get_from(db, key, rocksdb::kReadAllTier);
}

Result<KvVerified> RocksDatabase::verify(rocksdb::DB& db, const std::string& from) {
  const auto table_behind = [&](const std::string& name) {
    std::vector<rocksdb::LiveFileMetaData> tables;
    db.GetLiveFilesMetaData(&tables);
    const rocksdb::LiveFileMetaData* next = nullptr;
    for (const rocksdb::LiveFileMetaData& one : tables)
      if (one.name > name && (next == nullptr || one.name < next->name)) next = &one;
    return next == nullptr ? std::optional<rocksdb::LiveFileMetaData>() : *next;
  };
  const auto table = table_behind(from);
  if (!table) return KvVerified{};
  rocksdb::BlockBasedTableOptions plain;
  plain.no_block_cache = true;
  rocksdb::Options options;
  options.env = db.GetEnv();
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(plain));
  options.info_log = std::make_shared<NoDiary>();
  rocksdb::SstFileReader reader(options);
  rocksdb::Status status = reader.Open(table->db_path + table->name);
  if (status.ok()) status = reader.VerifyChecksum();
  // A compaction may have taken the table away meanwhile.
  if (!status.ok()) {
    const auto again = table_behind(from);
    if (again && again->name == table->name) return fail(error_of(status, "verify map"));
  }
  return KvVerified{table->name, table->size};
}

bool RocksDatabase::may_learn() const {
  return recent_.with([](const Recent& recent) { return !recent.learned && !recent.learning; });
}

Result<> RocksDatabase::learn(rocksdb::DB& db) {
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

// The recent changes and RocksDB's snapshot, as of one moment. While a table is still open, RocksDB has no
// change that was added to it after it was seen. If it was closed meanwhile, looks once more; and then holds
// off closing, so that no number of hand-overs keeps a list from its end.
std::pair<RecentChanges::AllSeen, std::unique_ptr<rocksdb::Iterator>> RocksDatabase::see(
    rocksdb::DB& db, const rocksdb::ReadOptions& options) {
  for (int looks = 1;; ++looks) {
    const bool alone = looks > looks_most;
    auto seen = recent_.wait(
        handed_, [&](const Recent& recent) { return !alone || !recent.handing; },
        [&](Recent& recent) {
          recent.handing |= alone;
          return recent.changes.see();
        });
    std::unique_ptr<rocksdb::Iterator> at(db.NewIterator(options));
    const bool same = recent_.with([&](Recent& recent) {
      if (alone) recent.handing = false;
      return recent.changes.is_open(seen[0]);
    });
    if (alone) handed_.notify_all();
    if (same) return {std::move(seen), std::move(at)};
  }
}

// Recent changes override what RocksDB has.
Result<std::vector<KvPair>> RocksDatabase::scan(rocksdb::DB& db, std::string_view from,
                                                std::string_view until, std::size_t limit) {
  std::vector<KvPair> out;
  if (from >= until) return out;
  const rocksdb::Slice end = slice(until);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &end;
  options.fill_cache = false;  // one long list would push out the blocks that every request needs
  auto [seen, at] = see(db, options);
  for (RecentChanges::Seen& one : seen)
    if (one.sort()) (void)recent_.with([&](Recent& recent) { return recent.changes.keep(one); });
  RecentRange recent(std::move(seen), from, until);
  at->Seek(slice(from));
  while (out.size() < limit && (at->Valid() || recent.now() != nullptr)) {
    const ChangeTable::Change* const newer = recent.now();
    const int order = !at->Valid() ? 1 : newer == nullptr ? -1 : at->key().compare(slice(newer->key()));
    if (order < 0) {
      out.push_back({at->key().ToString(), at->value().ToString()});
    } else {
      if (const auto value = newer->value()) out.push_back({std::string(newer->key()), std::string(*value)});
      recent.next();
    }
    if (order <= 0) at->Next();
  }
  TRY_VOID(result_of(at->status(), "scan map"));
  return out;
}

}  // namespace cairn::store
