// Shard: one single-threaded event loop's state: ready queue, clock, timers, randomness, frames.
//
// Passive: a driver (the epoll loop, the simulator, the explorer) decides what runs next and what time
// it is. Everything here belongs to one thread at a time; the only way in from another is the mailbox.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>

#include "base/units.h"
#include "runtime/frame_pool.h"
#include "runtime/list.h"
#include "runtime/random.h"
#include "runtime/timer_wheel.h"
#include "runtime/trace.h"
#include "runtime/waiter.h"

namespace cairn {

// A task's name in logs, metrics and oracles. Lives in the spawned frame.
struct TaskInfo {
  const char* name = "";
  std::uint64_t identity = 0;
  bool bounded = false;  // R-4 holds for it
};

class Shard {
 public:
  explicit Shard(unsigned index = 0, std::uint64_t seed = 1) noexcept : index_(index), random_(seed) {}
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  unsigned index() const noexcept { return index_; }

  // --- time: read once per loop turn
  Instant now() const noexcept {
    trace(clock_identity, Access::read);
    return now_;
  }
  // The clock itself, not the turn's reading of it: for measuring. Equal to now() where time is virtual.
  Instant precise_now() const noexcept { return clock_ != nullptr ? clock_() : now_; }
  void set_clock(Instant (*clock)() noexcept) noexcept { clock_ = clock; }
  WallTime wall() const noexcept { return {wall_offset_ms_ + now().ns / 1'000'000}; }
  void set_now(Instant now) noexcept { now_ = now; }
  void set_wall_offset(std::int64_t ms) noexcept { wall_offset_ms_ = ms; }

  Random& random() noexcept { return random_; }
  FramePool& frames() noexcept { return frames_; }
  TimerWheel& timers() noexcept { return timers_; }

  // --- ready queue
  bool idle() const noexcept { return ready_.empty(); }
  void make_ready(Waiter& waiter) noexcept { ready_.push_back(waiter); }
  // Runs the oldest ready wait until its task waits again. Precondition: !idle().
  void run_one() { run(ready_.pop_front()); }
  void run(Waiter& waiter);
  template <class F>
  void for_each_ready(F visit) {
    ready_.for_each(visit);
  }
  // --- turns, of a driver that looks for events between the steps. Under a driver that does not (the
  // explorer, a test) a task that waits for the next turn is ready at once.
  void set_turns() noexcept { has_turns_ = true; }
  void make_ready_next_turn(Waiter& waiter) noexcept { (has_turns_ ? next_turn_ : ready_).push_back(waiter); }
  bool next_turn_wanted() const noexcept { return !next_turn_.empty(); }
  // The driver has looked for events and has made their waiters ready.
  void end_turn() noexcept {
    turn_was_quiet_ = ready_.empty();
    while (!next_turn_.empty()) ready_.push_back(next_turn_.pop_front());
  }
  bool turn_was_quiet() const noexcept { return turn_was_quiet_; }

  // Moves time forward and wakes the waiters whose timers are due.
  void advance(Instant now);
  void fire(Waiter& waiter) noexcept;  // one timer, by an explorer's choice

  // True once in 64 calls: the caller should requeue itself so that others get a turn.
  bool turn_used_up() noexcept { return ++inline_awaits_ % awaits_per_turn == 0; }

  // Atomic for the watchdog alone, which asks in which task a shard hangs. The release makes the task's name
  // visible with the pointer.
  TaskInfo* current_task() const noexcept { return task_.load(std::memory_order_acquire); }
  void set_current_task(TaskInfo* task) noexcept { task_.store(task, std::memory_order_release); }

  // Back to the beginning of time, for a driver that runs many worlds one after another: keeps only the
  // frame pool. Precondition: nothing is ready, armed or alive.
  void rewind(std::uint64_t seed) noexcept {
    CHECK(ready_.empty() && next_turn_.empty() && live_tasks == 0);
    timers_.rewind();
    now_ = {};
    random_ = Random(seed);
    inline_awaits_ = 0;
  }

  // --- locks held by the running step; Guarded maintains it
  std::uint32_t held_locks = 0;

  // --- tracing
  void set_tracer(Tracer* tracer) noexcept { tracer_ = tracer; }
  Tracer* tracer() const noexcept { return tracer_; }
  void trace(std::uint64_t object, Access access) const noexcept {
    if (tracer_ != nullptr) [[unlikely]]
      tracer_->touch(object, access);
  }
  std::uint64_t new_identity() noexcept { return tracer_ != nullptr ? tracer_->new_identity() : 0; }

  std::size_t live_tasks = 0;

 private:
  static constexpr std::uint32_t awaits_per_turn = 64;

  unsigned index_;
  Instant now_{};
  Instant (*clock_)() noexcept = nullptr;
  std::int64_t wall_offset_ms_ = 0;
  Random random_;
  TimerWheel timers_;
  List<Waiter, ReadyNode> ready_, next_turn_;
  bool has_turns_ = false;
  bool turn_was_quiet_ = true;
  std::atomic<TaskInfo*> task_{nullptr};
  Tracer* tracer_ = nullptr;
  std::uint32_t inline_awaits_ = 0;
  FramePool frames_;
};

// The shard whose step runs on this thread, or null outside any. The tree's one thread_local.
Shard* current_shard() noexcept;

// Makes `shard` current for a scope: drivers use it around the code that is not a step (set-up, tests).
class ShardScope {
 public:
  explicit ShardScope(Shard& shard) noexcept;
  ~ShardScope();
  ShardScope(const ShardScope&) = delete;
  ShardScope& operator=(const ShardScope&) = delete;

 private:
  Shard* previous_;
};

}  // namespace cairn
