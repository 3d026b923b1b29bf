// Pruner: frees the disk space of old versions. It removes only versions that a durable checkpoint covers.
#pragma once

#include "io/machine.h"
#include "observe/log.h"
#include "runtime/mpsc.h"
#include "services/registry/chores.h"
#include "services/registry/port.h"
#include "store/log.h"

namespace cairn::registry {

class Pruner {
 public:
  // `port` is of this shard. All outlive it.
  Pruner(Registry& registry, io::Machine& machine, observe::Logger log, store::Log& segments, Port& port,
         Chores& chores)
      : registry_(registry),
        machine_(machine),
        log_(log),
        segments_(segments),
        port_(port),
        chores_(chores),
        retention_(registry.options().retention),
        offers_(machine.shard, registry.options().queues.retention) {}

  // The task, until its call is stopped.
  Task<> run(Call call);
  // One round of it: whether there was something to do. Cancel: partial — as after a crash.
  Task<Result<bool>> run_once(Call call);
  // Tells the task that a checkpoint covers `covered` versions, so that a round may find work. Never waits.
  void offer(std::uint64_t covered);
  std::size_t offers() const noexcept { return offers_.depth(); }
  void set_retention(const Retention& retention) noexcept { retention_ = retention; }

 private:
  std::uint64_t prune_limit(const Ledger& ledger) const;
  Task<Result<bool>> prune_segment(Call call, store::SegmentInfo segment);

  Registry& registry_;
  io::Machine& machine_;
  observe::Logger log_;
  store::Log& segments_;
  Port& port_;
  Chores& chores_;
  Retention retention_;
  Mpsc<std::uint64_t> offers_;
};

}  // namespace cairn::registry
