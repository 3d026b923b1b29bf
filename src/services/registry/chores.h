// Chores: changes that the home's own tasks ask of the committer. They wait in a queue of their own, like the
// changes of every other caller.
#pragma once

#include <memory>
#include <utility>

#include "runtime/permits.h"
#include "services/registry/mutation.h"

namespace cairn::registry {

class Chores {
 public:
  // `mailbox` is the home shard's. All outlive it.
  Chores(ErrandHome<Mutation>& errands, Mailbox& mailbox, Permits& places) noexcept
      : errands_(errands), mailbox_(mailbox), places_(places) {}

  // Returns when the change is durable. Cancel: partial — a change that was begun may still be done.
  Task<Result<Outcome>> ask(Call call, std::unique_ptr<Mutation> mutation) {
    mutation->who = "local";
    return errands_.ask(call, std::move(mutation), mailbox_, &places_);
  }

 private:
  ErrandHome<Mutation>& errands_;
  Mailbox& mailbox_;
  Permits& places_;
};

}  // namespace cairn::registry
