// LogKv: the twin of RocksKv for simulated nodes: the map in memory, and one append-only file, DIR/map, on
// the node's disk. Every batch is one record. Opening replays the longest good prefix and cuts the rest, so
// that after a crash the map is as it was after some batch (KV-1, KV-2). When the file is mostly history it
// is written anew beside itself and renamed.
//   [LK-1] Records reach the file in the order in which their batches became visible.
//   [LK-2] No byte that a flush covered is written again.
//   [LK-3] After a sync that failed, or a step whose outcome is not known, the map is fenced: writes and
//         flushes are `degraded` until it is opened again; reads go on.
// A write that the disk refuses (full, or failing) stays in memory and is tried again with the next one. Only
// flush() reports it, as with RocksDB's memtables. Only one task writes to the file at a time. A batch that
// comes meanwhile is visible, and that task writes it.
//
// The file is used through the machine that opened it: all shards must be driven by one thread, as simulated
// ones are.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "store/kv.h"

namespace cairn::store {

struct LogKvOptions {
  std::uint64_t compact_above = 1u << 20;     // the file's size from which on it may be written anew
  std::uint64_t compact_factor = 4;           // and how many times what is alive it must be
  std::uint64_t unwritten_max = 4u << 20;     // held in memory while the disk refuses; then writes fail too
  std::uint32_t cold = 20'000;                // per million: try_get says busy, as if it were on the disk
  Duration patience = Duration::seconds(60);  // how long the disk may take before the map is fenced
};

class LogKvMaker final : public KvMaker {
 public:
  explicit LogKvMaker(LogKvOptions options = {});
  // From now on the keys in [from, until) cannot be read, as when a block that holds them has rotted; until
  // the map of this directory is destroyed.
  void damage(const std::string& directory, std::string from, std::string until);
  // How many keys were looked up or scanned so far, in all maps.
  std::uint64_t keys_read() const noexcept { return *keys_read_; }
  // Cancel: partial — the directory is as after a crash.
  Task<Result<std::shared_ptr<KvEngine>>> open(Call call, io::Machine& machine,
                                               std::string directory) override;
  // Cancel: partial — any of the files may be gone.
  Task<Result<>> destroy(Call call, io::Machine& machine, std::string directory) override;

 private:
  LogKvOptions options_;
  struct Rotten;
  std::shared_ptr<Rotten> rotten_;  // the ranges known to be damaged, of every map
  std::shared_ptr<std::atomic<std::uint64_t>> keys_read_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  friend class LogEngine;
};

}  // namespace cairn::store
