// Direction: one direction of a stream or a listener: "an attempt may succeed now".
//
// Edge-triggered: the driver sets it, an attempt that would have blocked clears it, or pauses it. At most one
// task waits on it (a connection has one reader and one writer), which is CHECKed.
#pragma once

#include <utility>

#include "base/result.h"
#include "runtime/select.h"
#include "runtime/shard.h"
#include "runtime/waiter.h"

namespace cairn::io {

class Direction {
 public:
  explicit Direction(Shard& shard) noexcept : shard_(shard), identity_(shard.new_identity()) {}
  ~Direction() { CHECK(waiter_.empty()); }
  Direction(const Direction&) = delete;
  Direction& operator=(const Direction&) = delete;

  bool ready() const noexcept { return ready_; }
  void signal() noexcept {
    shard_.trace(identity_, Access::write);
    ready_ = true;
    if (!waiter_.empty()) wake(waiter_.front());
    if (watch_ != nullptr) watch_(watch_argument_);
  }
  // `seen(argument)` is called at each signal, beside the task that waits: for a task that waits for
  // something else meanwhile. nullptr forgets it. Runs outside any task: it may only mark or cancel.
  void watch(void (*seen)(void*) noexcept, void* argument) noexcept {
    watch_ = seen;
    watch_argument_ = argument;
  }
  void clear() noexcept { ready_ = paused_ = false; }
  // An attempt has ended because it did enough, and not because nothing was left. The next one may succeed,
  // but the wait before it lets the other tasks run and the driver look for events.
  void pause() noexcept {
    shard_.trace(identity_, Access::write);
    ready_ = paused_ = true;
  }
  // For who waits by arm(), and so gives the others their turn by itself.
  bool take_pause() noexcept { return std::exchange(paused_, false); }
  // `soon(argument)` is called when a task is about to wait. nullptr forgets it. It may not signal.
  void before_wait(void (*soon)(void*) noexcept, void* argument) noexcept {
    before_wait_ = soon;
    before_wait_argument_ = argument;
  }
  // For who waits by arm().
  void tell_wait() noexcept {
    if (before_wait_ != nullptr) before_wait_(before_wait_argument_);
  }
  // Every signal is one of `above` too: the direction of a stream that is carried by this one's. nullptr: no
  // longer.
  void pass_on_to(Direction* above) noexcept {
    watch(
        above == nullptr ? nullptr : [](void* to) noexcept { static_cast<Direction*>(to)->signal(); }, above);
  }

  // Until ready. Yields the turn now and then even when it is: a busy peer must not starve the others.
  class Wait : public Waiter {
   public:
    Wait(Direction& direction, const Call& call) noexcept : Waiter(call), direction_(direction) {}
    bool await_ready() noexcept {
      direction_.shard_.trace(direction_.identity_, Access::write);
      if (direction_.ready_) {
        pauses_ = direction_.take_pause();
        yields_ = direction_.shard_.turn_used_up();
        already_ = true;
        return !yields_ && !pauses_;
      }
      return !may_wait();
    }
    void await_suspend(std::coroutine_handle<> handle) noexcept {
      if (pauses_) return requeue_next_turn(handle);
      if (yields_) return requeue(handle);
      CHECK(direction_.waiter_.empty());
      direction_.tell_wait();
      own(node_);
      direction_.waiter_.push_back(node_);
      begin(handle);
    }
    [[nodiscard]] Result<> await_resume() const noexcept {
      if (already_ || why() == Wake::ready) return {};
      return fail(error("wait for the peer"));
    }

   private:
    Direction& direction_;
    WaitNode node_;
    bool already_ = false;
    bool yields_ = false;
    bool pauses_ = false;
  };
  Wait wait(const Call& call) noexcept { return {*this, call}; }
  // For a select. It does not give the turn to others, and tells nobody of the wait.
  SelectArm arm() noexcept {
    return {&waiter_, this, [](const void* self) { return static_cast<const Direction*>(self)->ready_; }};
  }

 private:
  Shard& shard_;
  std::uint64_t identity_;
  bool ready_ = false;
  bool paused_ = false;
  void (*watch_)(void*) noexcept = nullptr;
  void* watch_argument_ = nullptr;
  void (*before_wait_)(void*) noexcept = nullptr;
  void* before_wait_argument_ = nullptr;
  WaitList waiter_;
};

}  // namespace cairn::io
