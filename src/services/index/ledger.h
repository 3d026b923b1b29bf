// Ledger: the names and manifests of one index, shared by the shards of this process. Its home shard decides
// on changes and writes them (Home). Every shard reads and asks for changes through a Port of its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "crypto/ed25519.h"
#include "io/machine.h"
#include "observe/log.h"
#include "runtime/permits.h"
#include "store/kv.h"

namespace cairn::index {

class Committer;
class Home;
class Port;

// The capacity of `changes`: how many may wait for the disk.
inline constexpr std::uint64_t changes_capacity = 512;
inline constexpr char changes_full[] = "too many changes wait for the disk";

// Larger manifests are not kept: they are read from storage.
inline constexpr std::size_t manifest_kept_max = std::size_t{1} << 20;

struct LedgerOptions {
  std::string directory;
  std::uint64_t segment_size = 64u << 20;
  std::uint64_t reserve = 8u << 20;
  std::uint64_t ahead = 0;  // as the log's
  bool fsync = true;
  std::uint64_t changes_max = changes_capacity;
  std::shared_ptr<const crypto::Ed25519Key> key;  // of this node: it signs the changes
};

// Numbers that any thread may read.
struct Status {
  std::atomic<std::uint64_t> names{0}, changes{0}, manifests{0};
  std::atomic<std::uint64_t> log_bytes{0}, segments{0};
  std::atomic<std::uint64_t> damaged{0};        // places of the log that are not what was written
  std::atomic<std::uint64_t> replayed{0};       // records that the start took in
  std::atomic<std::uint64_t> bad_manifests{0};  // found since the start
  std::atomic<bool> open{false}, fenced{false}, full{false};
  // The map's files are damaged. It answers what it can; the next start makes it anew from the log.
  std::atomic<bool> index_damaged{false};
};

class Ledger {
 public:
  // The maker outlives it.
  Ledger(LedgerOptions options, store::KvMaker& kv);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // --- on the home shard
  // Cancel: partial — as after a crash.
  Task<Result<>> open(Call call, io::Machine& machine, observe::Logger log);
  // Precondition: the home's tasks have ended, and no port is in use. Cancel: partial — as after a crash.
  Task<Result<>> close(Call call);
  Home& home() noexcept { return *home_; }
  // Called for each address that a name leads to from now on. Must not wait.
  void on_named(std::function<void(const Address& address)> told) { told_ = std::move(told); }

  // --- on each shard, after open
  std::unique_ptr<Port> make_port(io::Machine& machine);
  // This shard's way to the map alone.
  std::unique_ptr<store::Kv> make_kv(io::Machine& machine);

  // --- from any thread
  const LedgerOptions& options() const noexcept { return options_; }
  Status& status() noexcept { return status_; }
  bool writable() const noexcept {
    return status_.open && !status_.fenced && !status_.full && !status_.index_damaged;
  }
  std::string segment_directory() const { return options_.directory + "/segments"; }
  Permits& changes() noexcept { return changes_; }

 private:
  friend class Committer;
  friend class Home;
  friend class Port;

  LedgerOptions options_;
  store::KvMaker& kv_maker_;
  Status status_;
  Permits changes_;
  std::function<void(const Address&)> told_;
  std::shared_ptr<store::KvEngine> engine_;
  std::unique_ptr<Home> home_;
};

}  // namespace cairn::index
