// For tests: a process of two shards with fair turns, driven by hand. The scheduler is at home on the first.
#pragma once

#include <algorithm>
#include <memory>

#include "runtime/fair_turns.h"
#include "runtime/scope.h"

namespace cairn {

constexpr Duration operator""_ms(unsigned long long n) {
  return Duration::millis(static_cast<std::int64_t>(n));
}

// A shard with its mail.
struct DrivenPlace {
  Shard shard;
  Mailbox mailbox{[] {}};
  Scope scope{shard}, mortals{shard};
  std::unique_ptr<FairTurns> turns;

  bool step() {
    ShardScope here(shard);
    bool moved = mailbox.drain() > 0;
    while (!shard.idle()) {
      shard.run_one();
      moved = true;
    }
    return moved;
  }
};

struct FairProcess {
  void open(std::uint64_t slots_each, std::size_t sched = 512, std::uint64_t work = 512) {
    places.set_limit(work);
    for (DrivenPlace* place : {&near, &far}) {
      ShardScope here(place->shard);
      const bool is_near = place == &near;
      place->turns = std::make_unique<FairTurns>(
          scheduler, place->shard, place->mailbox, FairTurns::Size{.sched = sched, .slots_each = slots_each},
          FairTurns::Told{.dropped = [this, is_near] { (is_near ? dropped_near : dropped_far)++; }});
    }
  }
  void hire(DrivenPlace& place, bool mortal = false) {
    ShardScope here(place.shard);
    Scope& scope = mortal ? place.mortals : place.scope;
    scope.spawn("worker", place.turns->work(scope.call()));
  }
  void start_scheduler() {
    ShardScope here(near.shard);
    near.mortals.spawn("scheduler", scheduler.run(near.mortals.call()));
  }
  // Lets everybody who waits end. Before the destructor, while the tenants live.
  void finish() {
    if (!near.turns || finished) return;
    finished = true;
    start_scheduler();
    hire(near);
    hire(far);
    run_for(Duration::seconds(10));
    for (DrivenPlace* place : {&near, &far}) {
      ShardScope here(place->shard);
      place->turns->close();
      place->mortals.cancel(StopReason::draining);
    }
    settle();
    CHECK(places.taken() == 0 && scheduler.out() == 0 && scheduler.waiting() == 0);
    for (DrivenPlace* place : {&near, &far}) {
      ShardScope here(place->shard);
      place->scope.abort();
    }
    settle();
    for (DrivenPlace* place : {&near, &far}) {
      ShardScope here(place->shard);
      place->turns.reset();
    }
  }

  void settle() {
    for (bool moved = true; moved;) {
      moved = near.step();
      moved = far.step() || moved;
    }
  }
  void run_for(Duration span) {
    const Instant until = near.shard.now() + span;
    settle();
    for (;;) {
      Instant next = until;
      for (DrivenPlace* place : {&near, &far})
        if (!place->shard.timers().empty()) next = std::min(next, place->shard.timers().next_due());
      for (DrivenPlace* place : {&near, &far}) {
        ShardScope here(place->shard);
        place->shard.advance(next);
      }
      settle();
      if (next == until) return;
    }
  }

  DrivenPlace near, far;
  Permits places{512};
  FairScheduler scheduler{near.shard, near.mailbox, places};
  int dropped_near = 0, dropped_far = 0;
  bool finished = false;
};

}  // namespace cairn
