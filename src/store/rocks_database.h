// RocksDatabase: an open RocksDB, a count of the jobs inside it, and the changes that it does not have yet.
//
//   [RD-1] The gathered changes are handed over in one batch: a crash at any moment keeps all of what was
//         written together, or none of it.
//   [RD-2] Changes that could not be handed over stay, and are found, until they could.
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/db.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/guarded.h"
#include "store/key_filter.h"
#include "store/kv.h"
#include "store/locks.h"
#include "store/recent_changes.h"
#include "store/rocks_kv.h"

namespace cairn::store {

class RocksDatabase {
 public:
  // Blocks. `integrity`: the files are damaged, or of a format that is not known.
  static Result<std::shared_ptr<RocksDatabase>> open(const RocksOptions& wanted, const std::string& directory,
                                                     std::uint64_t seed);
  // Blocks. None is fine too.
  static Result<> destroy(const std::string& directory);

  // f(rocksdb::DB&), on a pool thread: `closed` after close(). A job whose waiter left may still be running
  // when the map is closed: closing waits for it. A job that comes later does not run.
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

  // --- on a shard, without waiting. Precondition: not closed.
  void add(const KvBatch& batch);
  // From memory only: `busy` when it would have to look on the disk.
  Result<std::optional<std::string>> try_get(std::string_view key) const;
  bool may_learn() const;
  // There is enough to be handed over.
  bool is_due() const { return open_bytes() >= recent_bytes_; }
  // The engine does not keep up: it must take the changes that there are before more can be added.
  bool is_full() const { return open_bytes() >= 2 * recent_bytes_; }
  // How the last hand-over went.
  Result<> handed_over() const;
  std::uint64_t memory() const noexcept;
  std::uint64_t room() const noexcept;

  // --- on a pool thread
  static Result<std::optional<std::string>> get(rocksdb::DB& db, std::string_view key);
  Result<std::vector<KvPair>> scan(rocksdb::DB& db, std::string_view from, std::string_view until,
                                   std::size_t limit);
  // May wait until RocksDB has room.
  Result<> hand_over(rocksdb::DB& db);
  // Adds to the filter some more of the keys from before this process; later keys are in it anyway. After an
  // error, or when there are too many keys, the filter is left as it is, and RocksDB is asked about every
  // key.
  Result<> learn(rocksdb::DB& db);
  // Checks the first table behind `from`, block by block as the disk has it: cached blocks are read again.
  static Result<KvVerified> verify(rocksdb::DB& db, const std::string& from);
  // Makes everything that was written so far durable.
  Result<> flush(rocksdb::DB& db);
  // Lets go of the files whatever the outcome.
  Result<> close();

 private:
  // Row cache beside block cache: keys are spread evenly, so a hot key is alone in its block, and a block is
  // forty times the row.
  struct Caches {
    explicit Caches(std::uint64_t bytes);
    std::shared_ptr<rocksdb::Cache> blocks, rows;
  };
  struct State {
    explicit State(std::unique_ptr<rocksdb::DB> opened) noexcept : db(std::move(opened)) {}
    std::unique_ptr<rocksdb::DB> db;  // none: closed
    std::size_t users = 0;
  };
  struct Recent {
    Recent(std::uint64_t seed, std::uint64_t keys) : changes(seed), known(keys, seed) {}
    RecentChanges changes;
    KeyFilter known;       // keys that are or were in the map
    bool learned = false;  // all keys of the map are in `known`
    bool learning = false;
    std::string learned_until;
    bool handing = false;  // a hand-over is running on some thread, or none may begin
    Result<> handed_over;  // how the last time went
  };

  // One database's share of RocksDB's background threads. There is one thread of each kind for each database,
  // so that none waits for the flush or the merge of another's disk.
  class Share {
   public:
    Share(std::shared_ptr<std::atomic<int>> open, rocksdb::Env& env);
    ~Share() { --*open_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    std::shared_ptr<std::atomic<int>> open_;
  };

  RocksDatabase(std::unique_ptr<Share> share, std::unique_ptr<rocksdb::DB> db, Caches caches,
                const RocksOptions& wanted, std::uint64_t seed);
  static rocksdb::Options options_for(const RocksOptions& wanted, const Caches& caches);
  // After a full disk RocksDB takes no write until it is told to look again: tells it.
  void resume_if_full(rocksdb::DB& db) const;
  std::uint64_t open_bytes() const;
  std::pair<RecentChanges::AllSeen, std::unique_ptr<rocksdb::Iterator>> see(
      rocksdb::DB& db, const rocksdb::ReadOptions& options);

  std::unique_ptr<Share> share_;  // for as long as the database
  rocksdb::DB* here_;
  Caches caches_;
  std::uint64_t recent_bytes_;
  Guarded<State, index_files_lock.rank> state_;
  Condition left_;
  Guarded<Recent, index_recent_lock.rank> recent_;
  Condition handed_;
  std::atomic<bool> met_full_{false};  // RocksDB has met a full disk
};

}  // namespace cairn::store
