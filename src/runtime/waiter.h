// Waiter: one suspended wait. It can be ended by exactly one of: the thing waited for, the deadline, a
// cancellation. Whichever comes first takes it off every list, so the others cannot find it any more.
//   A waiter is woken at most once per wait.
//   Once woken as `ready`, a later deadline or cancel does not change the outcome: a value that was
//         handed over is never lost.
//   Resumption always goes through the shard's ready queue, never inline.
//   A wait of a task spawned as `bounded` has a deadline, unless it is shielded. Checked where steps
//         are traced: in simulations and by the explorer.
// It lives in the awaiting coroutine's frame, so a wait allocates nothing.
#pragma once

#include <coroutine>
#include <cstdint>

#include "base/error.h"
#include "runtime/call.h"
#include "runtime/list.h"
#include "runtime/timer_wheel.h"

namespace cairn {

class Shard;
class Waiter;
struct TaskInfo;

enum class Wake : std::uint8_t { none, ready, deadline, cancelled };

// A waiter's place in the queue of one primitive. A select has several, one for each arm.
struct WaitNode : Link {
  Waiter* owner = nullptr;
  WaitNode* sibling = nullptr;
  std::uint8_t arm = 0;
  // A code from the waker, each primitive's own (granted, closed, …). 0 unless set.
  std::uint8_t verdict = 0;
};
using WaitList = List<WaitNode>;

struct CancelNode : Link {};
struct ReadyNode : Link {};

class Waiter : public TimerNode, public CancelNode, public ReadyNode {
 public:
  explicit Waiter(const Call& call) noexcept : call_(call) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Suspends `handle` until woken. False when the wait is over before it began (cancelled, deadline
  // passed): do not suspend then. The caller has put its nodes on their lists only if true is returned.
  bool may_wait() noexcept;
  void begin(std::coroutine_handle<> handle) noexcept;

  // Puts `node` under this waiter, so that waking takes it off its list.
  void own(WaitNode& node, std::uint8_t arm = 0) noexcept;

  // Gives the turn back to the loop and comes back as ready: the fairness step after many ready awaits.
  void requeue(std::coroutine_handle<> handle) noexcept;
  // The same, after the driver looked for events.
  void requeue_next_turn(std::coroutine_handle<> handle) noexcept;

  void wake(Wake why, std::uint8_t arm = 0) noexcept;

  Wake why() const noexcept { return why_; }
  std::uint8_t arm() const noexcept { return arm_; }
  // The error of a wait that did not end as ready.
  Error error(const char* context) const noexcept;

  TaskInfo* task() const noexcept { return task_; }

 private:
  friend class Shard;
  void resume_later(std::coroutine_handle<> handle) noexcept;
  Call call_;
  Shard* shard_ = nullptr;
  TaskInfo* task_ = nullptr;
  std::coroutine_handle<> handle_;
  WaitNode* nodes_ = nullptr;
  Wake why_ = Wake::none;
  std::uint8_t arm_ = 0;
};

inline void wake(WaitNode& node, std::uint8_t verdict = 0) noexcept {
  node.verdict = verdict;
  node.owner->wake(Wake::ready, node.arm);
}

}  // namespace cairn
