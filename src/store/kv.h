// Kv: an ordered map from keys to values, kept beside a log and derived from it. The third seam beside disk
// and network: RocksDB in earnest, a small log-structured twin on the simulated disk.
//
//   [KV-1] A batch is applied whole or not at all. Batches of one port are applied in the order of writing,
//         even when the writer of one was cancelled.
//   [KV-2] After a crash the map is as it was after some batch, and never before the last flush(): it may be
//         behind, never torn, and never ahead of what was written.
//   [KV-3] A read on a shard never blocks: a value that is not in memory is `busy` and is asked for through
//         the pool.
//   [KV-4] A question that damaged files cannot answer is `integrity`, never nothing and never something
//         else.
// There is no durability per write: the log is the truth, and a batch carries the log position it stands for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/machine.h"
#include "runtime/task.h"

namespace cairn::store {

class KvBatch {
 public:
  void put(std::string key, std::string value) { changes_.push_back({std::move(key), std::move(value)}); }
  void remove(std::string key) { changes_.push_back({std::move(key), std::nullopt}); }
  void reserve(std::size_t count) { changes_.reserve(count); }
  bool empty() const noexcept { return changes_.empty(); }
  void clear() noexcept { changes_.clear(); }

  struct Change {
    std::string key;
    std::optional<std::string> value;  // none: removed
  };
  const std::vector<Change>& changes() const noexcept { return changes_; }
  std::vector<Change> take() && noexcept { return std::move(changes_); }

 private:
  std::vector<Change> changes_;
};

struct KvPair {
  std::string key, value;
};

// How far verify() came.
struct KvVerified {
  std::string next;  // where to go on; empty: that was all
  std::uint64_t bytes = 0;
};

// One shard's way to the map. Its engine outlives it.
class Kv {
 public:
  virtual ~Kv() = default;

  // From memory only: `busy` when it would have to look on the disk.
  virtual Result<std::optional<std::string>> try_get(std::string_view key) = 0;
  // Cancel: clean.
  virtual Task<Result<std::optional<std::string>>> get(Call call, std::string key) = 0;
  // Keys in [from, until), in order, at most `limit`. Cancel: clean.
  virtual Task<Result<std::vector<KvPair>>> scan(Call call, std::string from, std::string until,
                                                 std::size_t limit) = 0;
  // Waits until the next batch will be taken without a wait. `storage_full`: the disk has no room for batches
  // that were written before. Nothing is lost then, and the next question tries again. For a caller that must
  // not begin a change which the map could not take. Cancel: clean.
  virtual Task<Result<>> make_ready(Call call) = 0;
  // Visible to every port when it returns. May wait out a stall of the disk even when cancelled.
  // Cancel: partial — it may still be applied.
  virtual Task<Result<>> write(Call call, KvBatch batch) = 0;
  // Makes every batch so far survive any crash. After an error only earlier promises hold, and the map may
  // refuse writes until it is opened again; reads go on. Cancel: partial — it may still be flushed.
  virtual Task<Result<>> flush(Call call) = 0;
  // Reads some of the map's files, from `from` on, and checks them. `from`: empty at first, then what the
  // call before said. `integrity`: the files are damaged, whether or not those keys are in use.
  // Cancel: clean.
  virtual Task<Result<KvVerified>> verify(Call call, std::string from) = 0;
  // For a caller that finds a value that it did not write: the error to give, as if the files were damaged.
  virtual Error distrust(const char* why) noexcept { return {ErrorCode::integrity, why}; }
};

// The map itself: one per directory and process, shared by the shards.
class KvEngine {
 public:
  virtual ~KvEngine() = default;
  // `reads`: the lane for reads from the disk: that of requests, or `index` for the committer and the tasks
  // that tend the store.
  virtual std::unique_ptr<Kv> make_port(io::Machine& machine, Lane reads) = 0;
  std::unique_ptr<Kv> make_port(io::Machine& machine) { return make_port(machine, Lane::read); }
  // Room that the map takes on the disk for a while, beyond what it keeps there, to write down its changes
  // and to merge. Without that much room it falls behind.
  virtual std::uint64_t room() const noexcept { return 0; }
  // Bytes held in memory for it, about.
  virtual std::uint64_t memory() const noexcept = 0;
  // Flushes and lets go of the files. Precondition: no port is in use. Cancel: partial.
  virtual Task<Result<>> close(Call call, io::Machine& machine) = 0;
};

// Makes engines: real and simulated nodes differ only in the maker they are given.
class KvMaker {
 public:
  virtual ~KvMaker() = default;
  // Makes the directory when it is missing. `integrity`: the files are damaged (destroy and rebuild).
  virtual Task<Result<std::shared_ptr<KvEngine>>> open(Call call, io::Machine& machine,
                                                       std::string directory) = 0;
  // Removes the map and its files; none is fine too. The directory may stay. Precondition: not open.
  virtual Task<Result<>> destroy(Call call, io::Machine& machine, std::string directory) = 0;
};

}  // namespace cairn::store
