// For tests: a shard driven by hand. Runs what is ready, then jumps to the next timer.
#pragma once

#include "runtime/scope.h"

namespace cairn {

struct DrivenShard {
  Shard shard;
  ShardScope here{shard};
  Scope scope{shard};

  Call call() noexcept { return scope.call(); }
  void settle() {
    while (!shard.idle()) shard.run_one();
  }
  // Lets time pass up to `until`, firing timers in their order.
  void run_until(Instant until) {
    settle();
    while (!shard.timers().empty() && shard.timers().next_due() <= until) {
      shard.advance(shard.timers().next_due());
      settle();
    }
    shard.advance(until);
    settle();
  }
  void run_for(Duration span) { run_until(shard.now() + span); }
  // Until nothing is ready and no timer is armed.
  void run() {
    settle();
    while (!shard.timers().empty()) {
      shard.advance(shard.timers().next_due());
      settle();
    }
  }
};

}  // namespace cairn
