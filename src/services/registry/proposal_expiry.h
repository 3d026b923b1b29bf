// ProposalExpiry: ends proposals whose time is over (the task `sweeper`).
#pragma once

#include "observe/log.h"
#include "services/registry/chores.h"
#include "services/registry/registry.h"

namespace cairn::registry {

class ProposalExpiry {
 public:
  // All outlive it.
  ProposalExpiry(const Shard& shard, Guarded<Ledger, ledger_lock.rank>& ledger, Chores& chores,
                 observe::Logger log) noexcept
      : shard_(shard), ledger_(ledger), chores_(chores), log_(log) {}

  // The task, until its call is stopped.
  Task<> run(Call call);
  // One round of it. Cancel: partial — the proposals may still be ended.
  Task<Result<>> run_once(Call call);

 private:
  const Shard& shard_;
  Guarded<Ledger, ledger_lock.rank>& ledger_;
  Chores& chores_;
  observe::Logger log_;
};

}  // namespace cairn::registry
