// BreakerTable: one breaker (runtime/breaker.h) for each target, for all shards of a process.
//   [BT-1] The states are changed by one task alone, the breaker janitor. Every shard reads the newest table
//         as a whole, and sends what became of its requests to the janitor, through the queue `outcomes`.
//   [BT-2] A breaker opens when more than `trip_threshold` of the requests that ended within `window` failed,
//         and at least outcomes_least ended. It is half open after `cooldown`. Then `probes` good verdicts
//         close it, and a failed one opens it again.
//   [BT-3] Of one half-open breaker at most `probes` requests are out or have had a verdict, however many
//         shards ask at the same time; the janitor takes the tickets out of use before anybody can read the
//         next state. A probe without a verdict, or whose verdict could not be sent, leaves its place to
//         another one.
//   [BT-4] A full queue costs outcomes, which are counted, and never a wait.
// The state machine of a target is a Breaker of the janitor's own. Its probes are counted with tickets
// instead of its Try objects, because those belong to one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/breaker.h"
#include "runtime/declaration.h"
#include "runtime/errand.h"
#include "runtime/guarded.h"
#include "services/index/probe_tickets.h"

namespace cairn::index {

inline constexpr LockDeclaration breakers_lock{
    "breaker_table", 15, "the newest table of the targets' breakers, to copy its pointer"};

struct BreakerRules {
  Duration window = Duration::seconds(30);
  double trip_threshold = 0.5;
  Duration cooldown = Duration::seconds(10);
  std::uint32_t probes = 3;
};

class BreakerTable {
 public:
  static constexpr std::size_t outcomes_capacity = 1024;
  // One failure says little: a target that is asked rarely would be shut out by a single lost packet.
  static constexpr std::uint32_t outcomes_least = 5;
  static constexpr std::size_t targets_max = 1024;
  static constexpr Duration look = Duration::seconds(1);

  struct Entry {
    Breaker::State state = Breaker::State::closed;
    std::uint64_t epoch = 0;                     // another one with each change of state
    std::shared_ptr<ProbeTickets> tickets = {};  // of a half-open breaker
  };
  // By name. A target that is missing has never been shut out.
  struct Snapshot {
    std::unordered_map<std::string, Entry> entries;
    std::uint64_t opened = 0;  // how often any breaker opened so far
    Breaker::State state_of(const std::string& target) const noexcept {
      const auto found = entries.find(target);
      return found == entries.end() ? Breaker::State::closed : found->second.state;
    }
  };
  using SnapshotPtr = std::shared_ptr<const Snapshot>;

  // A request that may begin. Without an end() it says nothing about the target. It lives on the shard that
  // began it; the table outlives it.
  class Try {
   public:
    Try(Try&& other) noexcept = default;
    Try& operator=(Try&& other) noexcept {
      std::swap(of_, other.of_);
      return *this;
    }
    ~Try() { drop(); }
    void end(bool good);

   private:
    friend class BreakerTable;
    struct Request {
      BreakerTable* table;
      Mailbox* from;
      std::string target;
      std::uint64_t epoch;
      std::shared_ptr<ProbeTickets> ticket;  // of a probe
    };
    explicit Try(std::unique_ptr<Request> of) noexcept : of_(std::move(of)) {}
    void drop() noexcept;
    std::unique_ptr<Request> of_;
  };

  // `mailbox` is that of the shard on which the janitor runs.
  BreakerTable(Shard& home, Mailbox& mailbox, const BreakerRules& rules);
  // Precondition: as of an ErrandHome.
  ~BreakerTable() = default;
  BreakerTable(const BreakerTable&) = delete;
  BreakerTable& operator=(const BreakerTable&) = delete;

  // --- from any shard; `from` is its mailbox
  SnapshotPtr snapshot() const {
    return newest_.with([](const SnapshotPtr& newest) { return newest; });
  }
  // Nothing: the target must not be asked now.
  std::optional<Try> try_begin(const std::string& target, Mailbox& from) {
    return try_begin(*snapshot(), target, from);
  }
  // The same by a table that was read before and may be older by now.
  std::optional<Try> try_begin(const Snapshot& table, const std::string& target, Mailbox& from);
  // Outcomes that were not counted because the queue was full.
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::size_t waiting() const noexcept { return places_.taken(); }

  // --- at home
  // The declared task: takes outcomes as they come, and looks once a second whether a cooldown is over.
  // Cancel: clean — outcomes that come later are dropped.
  Task<> run(Call call);
  void set_rules(const BreakerRules& rules);

 private:
  struct Outcome : Errand<Outcome, bool> {
    Outcome(std::string of, std::uint64_t in, bool well) : target(std::move(of)), epoch(in), good(well) {}
    std::string target;
    std::uint64_t epoch;
    bool good;
  };
  struct Watched {
    explicit Watched(const BreakerPolicy& policy) : breaker(policy) {}
    Breaker breaker;
    Entry entry;
    std::uint32_t issued = 0;  // tickets of the entry
    Instant heard{};           // of it the last time
  };

  static BreakerPolicy policy_of(const BreakerRules& rules) noexcept;
  Result<> report(std::unique_ptr<Outcome> outcome, Mailbox& from);
  bool take_one();
  void apply(const std::string& target, std::uint64_t epoch, bool good);
  void look_at_all();
  void follow(Watched& watched);
  void publish();

  Shard& shard_;
  std::uint32_t probes_;
  BreakerPolicy policy_;
  Permits places_{outcomes_capacity};
  ErrandHome<Outcome> outcomes_;
  std::atomic<std::uint64_t> lost_{0};
  // --- the janitor's
  std::unordered_map<std::string, std::unique_ptr<Watched>> watched_;
  std::uint64_t epochs_ = 0, opened_ = 0;
  bool changed_ = false;  // since the table was published
  // --- everybody's
  Guarded<SnapshotPtr, breakers_lock.rank> newest_{std::make_shared<const Snapshot>()};
};

}  // namespace cairn::index
