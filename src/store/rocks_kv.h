// RocksKv: the map in RocksDB, one column family, without a write-ahead log: the log that the map is derived
// from serves as one. A write goes into a table of recent changes on the shard. When that table is large
// enough it is handed over to RocksDB in one batch, on the pool, and becomes a memtable of its own. Until
// then reads find its changes in the table. A flush makes the memtables durable whole and in order, so KV-1
// and KV-2 follow from the order of the batches. Changes that were not flushed are gone after a crash and
// come again from the log. Damage is found by checksums of every block that is read: `integrity`.
#pragma once

#include <atomic>
#include <memory>

#include "store/kv.h"

namespace rocksdb {
class Env;
}

namespace cairn::store {

struct RocksOptions {
  // Half for blocks, indexes and filters, half for rows; a third as much again says which keys are not there.
  std::uint64_t cache_bytes = 24u << 20;
  std::uint64_t recent_bytes = 8u << 20;  // of changes that are handed over together; fewer on a small disk
  rocksdb::Env* files = nullptr;          // none: the system's. Outlives every map.
  // How many maps are open with these options, or a copy of them.
  std::shared_ptr<std::atomic<int>> open = std::make_shared<std::atomic<int>>(0);
};

// Each map that is open has two of RocksDB's background threads.
class RocksKvMaker final : public KvMaker {
 public:
  explicit RocksKvMaker(RocksOptions options = {}) noexcept : options_(options) {}
  // Cancel: partial — the directory may have been made.
  Task<Result<std::shared_ptr<KvEngine>>> open(Call call, io::Machine& machine,
                                               std::string directory) override;
  // Cancel: partial — any of the files may be gone.
  Task<Result<>> destroy(Call call, io::Machine& machine, std::string directory) override;

 private:
  RocksOptions options_;
};

}  // namespace cairn::store
