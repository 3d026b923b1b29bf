// Planner: decides on one change after the other, by the present ledger. It changes only the commit group and
// the change itself.
#pragma once

#include "services/registry/change_group.h"
#include "services/registry/recorded_time.h"
#include "services/registry/registry.h"

namespace cairn::registry {

using store::Planned;

class Planner {
 public:
  // Both outlive it.
  Planner(const RegistryOptions& options, io::Machine& machine) noexcept
      : options_(options), machine_(machine) {}

  // Sets the result that the change will have, or returns why it is refused.
  Result<Planned> plan(const Ledger& ledger, Mutation& mutation, ChangeGroup& group);

 private:
  Result<Planned> plan_propose(const Ledger& ledger, Mutation& mutation, ChangeGroup& group);
  Result<> check_signature(const Ledger& ledger, const Pending& pending, const Mutation& mutation,
                           const Mutation::Signature& signature, const ChangeGroup& group) const;
  void add_approval(const Mutation& mutation, const format::Approval& approval, ChangeGroup& group);
  Result<Planned> plan_approve(const Ledger& ledger, Mutation& mutation, ChangeGroup& group);
  Result<Planned> plan_commit(const Ledger& ledger, Mutation& mutation, ChangeGroup& group);
  Result<Planned> plan_chore(const Ledger& ledger, Mutation& mutation, ChangeGroup& group);
  WallTime now_wall() const noexcept { return recorded_time(machine_.shard); }

  const RegistryOptions& options_;
  io::Machine& machine_;
};

}  // namespace cairn::registry
