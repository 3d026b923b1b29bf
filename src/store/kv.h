// Kv: an ordered map from keys to values, kept beside a log and derived from it. The third seam beside disk
// and network: RocksDB in earnest, a small log-structured twin on the simulated disk.
//
//   [KV-1] A batch is applied whole or not at all; those of one port in the order of writing, even when the
//         writer of one was cancelled.
//   [KV-2] After a crash the map is what it was after some batch, never less than at the last flush(): it may
//         be behind, never torn, and never ahead of what was written.
//   [KV-3] A read on a shard never blocks: what is not in memory is `busy` and is asked for through the pool.
//   [KV-4] What damaged files cannot tell is `integrity`, never nothing and never something else.
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
  // Waits until the next batch will be taken without a wait. `storage_full`: the disk has no room for what
  // was written before; nothing is lost, and it is tried again with the next question. For one who must not
  // begin what cannot be written down here. Cancel: clean.
  virtual Task<Result<>> make_ready(Call call) = 0;
  // Visible to every port when it returns. May wait out a stall of the disk even when cancelled. Cancel:
  // partial — it may still be applied.
  virtual Task<Result<>> write(Call call, KvBatch batch) = 0;
  // What was written so far survives any crash. After an error nothing is promised that was not before, and
  // the map may refuse to be written to until it is opened again; reads go on. Cancel: partial — it may still
  // be flushed.
  virtual Task<Result<>> flush(Call call) = 0;
  // Reads some of what is on the disk, from `from` on, and checks it: nothing at first, then what the call
  // before it said. `integrity`: it is damaged, whether or not anybody asked for those keys. Cancel: clean.
  virtual Task<Result<KvVerified>> verify(Call call, std::string from) = 0;
  // For whoever finds a value that it did not write: the error to give, as if the files were damaged.
  virtual Error distrust(const char* why) noexcept { return {ErrorCode::integrity, why}; }
};

// The map itself: one per directory and process, shared by the shards.
class KvEngine {
 public:
  virtual ~KvEngine() = default;
  // What it has to read goes by the lane `reads`: that of requests, or `index` for the writer and what tends
  // it.
  virtual std::unique_ptr<Kv> make_port(io::Machine& machine, Lane reads) = 0;
  std::unique_ptr<Kv> make_port(io::Machine& machine) { return make_port(machine, Lane::read); }
  // What it takes on the disk for a while, beyond what it keeps there: to write down what it was given, and
  // to merge. Without that much room it falls behind.
  virtual std::uint64_t room() const noexcept { return 0; }
  // Bytes held in memory for it, about.
  virtual std::uint64_t memory() const noexcept = 0;
  // Flushes and lets go of the files. Precondition: no port is in use. Cancel: partial.
  virtual Task<Result<>> close(Call call, io::Machine& machine) = 0;
};

// How engines are made: real and simulated nodes differ only in the one they are given.
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
