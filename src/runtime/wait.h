// The one awaiter behind every primitive: wait on a list until woken, the deadline passes, or a cancel.
#pragma once

#include "base/result.h"
#include "runtime/shard.h"
#include "runtime/waiter.h"

namespace cairn {

// co_await ListWait(call, list, "what"): joins `list` at its end; the waker takes it off.
class ListWait : public Waiter {
 public:
  ListWait(const Call& call, WaitList& list, const char* context) noexcept
      : Waiter(call), list_(list), context_(context) {}

  bool await_ready() noexcept { return !may_wait(); }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    own(node_);
    list_.push_back(node_);
    begin(handle);
  }
  [[nodiscard]] Result<> await_resume() const noexcept {
    if (why() == Wake::ready) return {};
    return fail(error(context_));
  }

 private:
  WaitList& list_;
  const char* context_;
  WaitNode node_;
};

// co_await sleep_until(call, t): the only way to let time pass.
class Sleep : public Waiter {
 public:
  Sleep(const Call& call, Instant until) noexcept
      : Waiter(call.by(until)), outer_(call.deadline()), until_(until) {}
  bool await_ready() noexcept { return !may_wait(); }
  void await_suspend(std::coroutine_handle<> handle) noexcept { begin(handle); }
  // Fine when `until` was reached; timeout when the call's own deadline came first.
  [[nodiscard]] Result<> await_resume() const noexcept {
    if (why() == Wake::deadline && until_ <= outer_) return {};
    return fail(error("sleep"));
  }

 private:
  Instant outer_;
  Instant until_;
};

inline Sleep sleep_until(const Call& call, Instant until) noexcept { return {call, until}; }
inline Sleep sleep_for(const Call& call, Duration span) noexcept {
  return {call, current_shard()->now() + span};
}

// co_await yield(): lets every other ready task have a turn.
class Yield : public Waiter {
 public:
  using Waiter::Waiter;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) noexcept { requeue(handle); }
  void await_resume() const noexcept {}
};
inline Yield yield(const Call& call) noexcept { return Yield(call); }

// co_await next_turn(): as yield(), and the driver also looks for new events, without sleeping. False: no
// other task was ready and no event came, so another turn helps only after an event.
class NextTurn : public Waiter {
 public:
  using Waiter::Waiter;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) noexcept { requeue_next_turn(handle); }
  [[nodiscard]] bool await_resume() const noexcept { return !current_shard()->turn_was_quiet(); }
};
inline NextTurn next_turn(const Call& call) noexcept { return NextTurn(call); }

}  // namespace cairn
