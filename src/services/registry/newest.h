// Newest: wakes the tasks of the home shard that wait for a commit. The commit itself is in the ledger.
#pragma once

#include "runtime/wait.h"

namespace cairn::registry {

class Newest {
 public:
  // co_await next(call): until there is another commit. Cancel: clean.
  ListWait next(const Call& call) noexcept { return {call, waiting_, "a commit"}; }
  // When the last commit of this process was.
  Instant last() const noexcept { return last_; }
  void tell(Instant now) noexcept {
    last_ = now;
    while (!waiting_.empty()) wake(waiting_.front());
  }

 private:
  WaitList waiting_;
  Instant last_{};
};

}  // namespace cairn::registry
