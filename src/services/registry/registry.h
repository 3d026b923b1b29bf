// Registry: the state of one registry that the shards of this process share. Its home shard decides on
// changes and writes them (Home). Every shard reads and asks for changes through a Port of its own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crypto/ed25519.h"
#include "crypto/signed_note.h"
#include "format/signed_commit.h"
#include "io/machine.h"
#include "observe/log.h"
#include "runtime/declaration.h"
#include "runtime/guarded.h"
#include "runtime/permits.h"
#include "services/registry/audit.h"
#include "services/registry/ledger.h"

namespace cairn::registry {

class Home;
class Port;

inline constexpr std::uint64_t queue_capacity = 512;
inline constexpr std::uint64_t chores_capacity = 64;  // of the home's own tasks
inline constexpr std::size_t retention_capacity = 8;
// The answer to a caller that finds a queue full.
inline constexpr char queue_is_full[] = "too many changes wait for the disk";
inline constexpr std::size_t committed_capacity = 1024;  // unless bus.channel_bound says otherwise

inline constexpr LockDeclaration ports_lock{"ports", 18, "the shards' ports, to tell them of a new head"};
inline constexpr LockDeclaration ledger_lock{
    "ledger", 19, "head, versions, items, proposals and tree, for the time of a look or a step"};
inline constexpr LockDeclaration feed_lock{"feed", 20, "heads on their way to one shard"};
inline constexpr LockDeclaration audit_lock{
    "audit", 21, "events on their way into the ring; refusals of each token in this minute"};

struct Retention {
  enum class Policy : std::uint8_t { none, by_age, by_count, by_size };
  Policy policy = Policy::none;
  Duration max_age = Duration::seconds(30 * 24 * 3600);
  std::uint64_t max_count = 10000;
  std::uint64_t target_bytes = std::uint64_t{1} << 30;
};

// Capacities of the queues that have a configuration key of their own.
struct QueueSizes {
  std::uint64_t proposals = queue_capacity, approvals = queue_capacity, commits = queue_capacity;
  std::size_t audit = audit_capacity;
  std::size_t retention = retention_capacity;
};

struct RegistryOptions {
  std::string directory;
  std::uint64_t segment_size = 64u << 20;
  std::uint64_t reserve = 8u << 20;
  std::uint64_t ahead = 0;  // as the log's
  bool fsync = true;
  Duration checkpoint_interval = Duration::seconds(600);
  Duration slow_sync = Duration::seconds(1);
  Retention retention;
  Duration proposals_ttl = Duration::seconds(24 * 3600);
  std::uint64_t proposals_max = 1024;
  std::size_t channel_bound = committed_capacity;  // heads kept for a slow subscriber
  QueueSizes queues;
  AuditRing audit;
  format::Genesis genesis;
  std::shared_ptr<const crypto::Ed25519Key> log_key;
};

// Numbers that any thread may read.
struct Status {
  std::atomic<std::uint64_t> versions{0}, first_kept{0}, pending{0}, bad{0};
  std::atomic<std::uint64_t> log_bytes{0}, segments{0};
  std::atomic<std::uint64_t> recoveries{0};
  std::atomic<std::int64_t> checkpoint_at{0};  // wall ms
  std::atomic<std::uint64_t> checkpoint_size{0};
  std::atomic<std::int64_t> checkpoint_age{0};  // ms, updated now and then
  std::atomic<std::uint64_t> verified{0}, verify_passes{0};
  std::atomic<std::int64_t> verify_took{0};   // ns, the last whole pass
  std::atomic<std::int64_t> append_since{0};  // instant ns of the append under way; 0: none
  std::atomic<std::int64_t> append_ended{0};  // instant ns of the last one
  std::atomic<std::int64_t> append_took{0};   // ns, the last one
  // Requested changes by their outcome, whether or not a caller still waited for the answer.
  std::atomic<std::uint64_t> committed{0}, accepted{0}, refused{0};
  std::atomic<std::uint64_t> cas_failed{0}, backoffs{0};
  std::atomic<std::uint64_t> prunes_skipped{0};
  std::atomic<std::uint64_t> audit_next{0};  // the sequence that comes next in the ring; 0: not known yet
  std::atomic<std::uint64_t> audit_dropped{0};
  std::atomic<bool> open{false}, fenced{false}, full{false};
  // Fenced, and every start will fence again while the files are as they are.
  std::atomic<bool> rolled_back{false};
  std::atomic<bool> reads_failed{false};  // the disk gave an error for the last record that was read
};

class Registry {
 public:
  explicit Registry(RegistryOptions options);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // --- on the home shard
  // Reads the log and checks HEAD. Cancel: partial — as after a crash.
  Task<Result<>> open(Call call, io::Machine& machine, observe::Logger log);
  Home& home() noexcept { return *home_; }
  Task<Result<>> close(Call call);
  // How many entries wait in the declared queue of this name.
  std::uint64_t queue_depth(std::string_view queue) noexcept;
  // Tells every shard of a new head, without waiting.
  void announce(const Head& head);
  void forget_segment(std::uint32_t segment);
  // Sets the numbers of status() from the present ledger and log.
  void publish_status(const store::Log& log);

  // --- on each shard, after open
  std::unique_ptr<Port> make_port(io::Machine& machine);

  // --- from any thread
  const RegistryOptions& options() const noexcept { return options_; }
  Status& status() noexcept { return status_; }
  Guarded<Ledger, ledger_lock.rank>& ledger() noexcept { return ledger_; }
  Guarded<AuditTable, audit_lock.rank>& audit() noexcept { return audit_; }
  // Whether changes are taken and will soon be durable.
  bool writable(Instant now) const noexcept;
  std::string segment_directory() const { return options_.directory + "/segments"; }
  std::string audit_path() const { return options_.directory + "/audit"; }
  // The name and key that sign this registry's checkpoints.
  const crypto::NoteVerifier& note_verifier() const noexcept { return note_verifier_; }

 private:
  friend class Home;
  friend class Port;

  RegistryOptions options_;
  crypto::NoteVerifier note_verifier_;
  Guarded<Ledger, ledger_lock.rank> ledger_;
  Guarded<AuditTable, audit_lock.rank> audit_;
  Permits proposals_, approvals_, commits_;
  Permits chores_{chores_capacity};
  Status status_;
  std::unique_ptr<Home> home_;
  struct PortList {
    std::vector<std::pair<Port*, Mailbox*>> ports;
  };
  Guarded<PortList, ports_lock.rank> ports_;
};

}  // namespace cairn::registry
