#include "store/rocks_kv.h"

#include "runtime/pool.h"
#include "runtime/semaphore.h"
#include "runtime/wait.h"
#include "store/rocks_database.h"

namespace cairn::store {
namespace {

using SharedDatabase = std::shared_ptr<RocksDatabase>;

class RocksPort final : public Kv {
 public:
  RocksPort(SharedDatabase database, Shard& shard, Pool& pool, Lane reads) noexcept
      : database_(std::move(database)), pool_(pool), reads_(reads), turn_(shard, 1) {
    if (reads != Lane::index) return;
    writer_seat_.emplace(pool, Lane::cpu);
    scrubber_seat_.emplace(pool, Lane::cpu);
  }
  ~RocksPort() override {
    if (handing_over_ == nullptr) return;
    if (pool_.try_withdraw(Lane::cpu, *handing_over_))
      delete handing_over_;
    else
      handing_over_->port = nullptr;
  }

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    return database_->try_get(key);
  }

  Task<Result<std::optional<std::string>>> get(Call call, std::string key) override {
    auto found = try_get(key);
    if (found || found.error().code != ErrorCode::busy) co_return found;
    co_return co_await run(pool_, call, reads_, [database = database_, key = std::move(key)] {
      return database->use([&](rocksdb::DB& db) { return RocksDatabase::get(db, key); });
    });
  }

  Task<Result<std::vector<KvPair>>> scan(Call call, std::string from, std::string until,
                                         std::size_t limit) override {
    return run(
        pool_, call, reads_, [database = database_, from = std::move(from), until = std::move(until), limit] {
          return database->use([&](rocksdb::DB& db) { return database->scan(db, from, until, limit); });
        });
  }

  Task<Result<>> make_ready(Call call) override {
    while (database_->is_full()) {
      start_handing_over();
      CO_TRY_VOID(co_await sleep_for(call, Duration::millis(1)));
      // The hand-over was tried meanwhile: waiting for an engine that refuses would never end.
      if (handing_over_ == nullptr) CO_TRY_VOID(database_->handed_over());
    }
    co_return Result<>{};
  }

  Task<Result<>> write(Call call, KvBatch batch) override {
    CO_TRY(const Permit turn, co_await turn_.acquire(call));  // KV-1
    CO_TRY_VOID(co_await make_ready(call));
    // RocksDB takes nothing more once it has met damage: the writer is told now, and not when memory is full.
    if (database_->is_due())
      if (auto handed = database_->handed_over(); !handed && handed.error().code == ErrorCode::integrity)
        co_return handed;
    database_->add(batch);
    if (database_->is_due() || database_->may_learn()) start_handing_over();
    co_return Result<>{};
  }

  Task<Result<>> flush(Call call) override {
    return run(pool_, call, Lane::upkeep, [database = database_] {
      return database->use([&](rocksdb::DB& db) { return database->flush(db); });
    });
  }

  Task<Result<KvVerified>> verify(Call call, std::string from) override {
    return run(pool_, call, Lane::cpu, [database = database_, from = std::move(from)] {
      return database->use([&](rocksdb::DB& db) { return RocksDatabase::verify(db, from); });
    });
  }

 private:
  // No caller waits for it: changes that could not be handed over stay, and the next write tries again.
  class HandOver final : public PoolJob {
   public:
    HandOver(RocksPort& of, Pool& pool) noexcept : PoolJob(pool), port(&of), database_(of.database_) {}
    void work() noexcept override {
      (void)database_->use([this](rocksdb::DB& db) -> Result<> {
        (void)database_->learn(db);  // an error comes again with the next question to RocksDB
        return database_->is_due() ? database_->hand_over(db) : Result<>{};
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
  Lane reads_;
  Semaphore turn_;
  HandOver* handing_over_ = nullptr;  // deletes itself
  // For the writer, to hand over changes that the next write may wait for, and for verify().
  std::optional<PoolSeat> writer_seat_, scrubber_seat_;
};

class RocksEngine final : public KvEngine {
 public:
  explicit RocksEngine(SharedDatabase database) noexcept : database_(std::move(database)) {}

  std::unique_ptr<Kv> make_port(io::Machine& machine, Lane reads) override {
    return std::make_unique<RocksPort>(database_, machine.shard, machine.pool, reads);
  }
  std::uint64_t room() const noexcept override { return database_->room(); }
  std::uint64_t memory() const noexcept override { return database_->memory(); }
  Task<Result<>> close(Call call, io::Machine& machine) override {
    return run(machine.pool, call, Lane::upkeep, [database = database_] { return database->close(); });
  }

 private:
  SharedDatabase database_;
};

Result<std::shared_ptr<KvEngine>> open_engine(const RocksOptions& wanted, const std::string& directory,
                                              std::uint64_t seed) {
  TRY(SharedDatabase database, RocksDatabase::open(wanted, directory, seed));
  return std::make_shared<RocksEngine>(std::move(database));
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
  co_return co_await run(machine.pool, call, Lane::upkeep,
                         [options = options_, directory = std::move(directory), seed] {
                           return open_engine(options, directory, seed);
                         });
}

Task<Result<>> RocksKvMaker::destroy(Call call, io::Machine& machine, std::string directory) {
  return run(machine.pool, call, Lane::upkeep,
             [directory = std::move(directory)] { return RocksDatabase::destroy(directory); });
}

}  // namespace cairn::store
