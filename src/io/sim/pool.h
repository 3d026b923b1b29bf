// The simulated pool: a job's work runs at a moment of the seed's choosing, at once in real time, and its
// completion comes back through the mailbox some time later; jobs overtake each other as threads would.
#pragma once

#include <array>
#include <vector>

#include "io/sim/clockwork.h"
#include "runtime/mailbox.h"
#include "runtime/pool.h"

namespace cairn::io::sim {

struct PoolFaults {
  Duration latency_min = Duration::micros(5);
  Duration latency_max = Duration::micros(100);
  std::uint32_t full = 0;  // per million: refuses although there is room
  std::size_t queue = 256;
};

class SimPool final : public Pool {
 public:
  // Where its events go: a pool dies with its node's program, an event's target must not.
  struct Door {
    Event::Handler handler;
    void* target;
    std::uint64_t a;
  };
  SimPool(Clockwork& clockwork, Mailbox& home, const PoolFaults& faults, Door door) noexcept
      : clockwork_(clockwork), home_(home), faults_(faults), door_(door) {
    clockwork_.probes.declare("pool.full");
  }
  ~SimPool() override { CHECK(working_.empty()); }

  Result<> try_submit(Lane lane, PoolJob& job) override;
  bool try_withdraw(Lane lane, PoolJob& job) noexcept override;

  // An event of the door: a job of lane b starts, or (b == lane_count) one that works completes.
  void turn(std::uint64_t b);
  // Lets everything that works complete now. What is queued is withdrawn by its waiters.
  void hurry();

 private:
  void finish(std::size_t index);
  Duration delay() { return clockwork_.span(faults_.latency_min, faults_.latency_max, "pool.latency"); }

  Clockwork& clockwork_;
  Mailbox& home_;
  const PoolFaults& faults_;
  Door door_;
  struct Queue {
    List<PoolJob> jobs;
    std::size_t depth = 0;
  };
  std::array<Queue, lane_count> lanes_;
  std::vector<PoolJob*> working_;
};

}  // namespace cairn::io::sim
