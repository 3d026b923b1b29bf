#include "runtime/drain.h"

#include <array>

#include "runtime/wait.h"

namespace cairn {

const char* name_of(DrainState state) noexcept {
  constexpr std::array<const char*, 4> names{"running", "draining", "aborting", "stopped"};
  return names[static_cast<std::size_t>(state)];
}

DrainGuard::DrainGuard(Drain& drain) noexcept : drain_(&drain) {
  drain.touch();
  ++drain.inflight_;
}

DrainGuard::~DrainGuard() {
  if (drain_ == nullptr) return;
  drain_->touch();
  CHECK(drain_->inflight_ > 0);
  if (--drain_->inflight_ == 0) drain_->wake_all();
}

Result<DrainGuard> Drain::try_enter() noexcept {
  touch();
  if (state() != DrainState::running) return fail(ErrorCode::draining, "enter");
  return DrainGuard(*this);
}

DrainGuard Drain::enter(const DrainGuard& admitted) noexcept {
  CHECK(admitted.drain_ == this);
  return DrainGuard(*this);
}

void Drain::wake_all() noexcept {
  while (!waiters_.empty()) wake(waiters_.front());
}

// The state becomes `stopped` however finish() ends, also by a task's exception out of join.
Drain::Stopped::~Stopped() { drain_.shutdown_.set(DrainState::stopped); }

void Drain::begin(Instant deadline) noexcept {
  touch();
  const bool nearer = deadline < deadline_;
  if (nearer) deadline_ = deadline;
  if (state() == DrainState::running) {
    shutdown_.set(DrainState::draining);
    while (!begun_.empty()) wake(begun_.front());
  }
  wake_all();  // the waiters look at the new deadline
  if (nearer && nearer_ != nullptr) nearer_->cancel(StopReason::superseded);
}

SelectArm Drain::stopping() noexcept {
  return {&begun_, this,
          [](const void* self) { return static_cast<const Drain*>(self)->state() != DrainState::running; }};
}

Task<Result<>> Drain::wait_drained(Call call) {
  touch();
  while (state() == DrainState::running || inflight_ > 0) {
    CO_TRY_VOID(co_await ListWait(call, waiters_, "drain"));
    touch();
  }
  co_return Result<>{};
}

// Joins `scope` by the deadline, which may come nearer while waiting.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<>> Drain::join_in_time(Call call, Scope& scope) {
  for (;;) {
    const Instant until = deadline_;
    // Resets nearer_ however the join ends, also by a task's exception.
    struct Nearer {
      Drain& drain;
      CancelSource source;
      ~Nearer() { drain.nearer_ = nullptr; }
    } nearer{*this, {shard_, &call.cancel()}};
    nearer_ = &nearer.source;
    auto joined = co_await scope.join(call.under(nearer.source).by(until));
    touch();
    if (joined || deadline_ >= until) co_return joined;
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<DrainResult> Drain::finish(Call call, Scope& scope) {
  CHECK(state() == DrainState::draining);
  Stopped stopped(*this);
  touch();
  Result<> ended;
  while (ended && inflight_ > 0) {
    ended = co_await ListWait(call.by(deadline_), waiters_, "drain");
    touch();
  }
  DrainResult result;
  result.aborted = inflight_;
  scope.cancel(StopReason::draining);
  if (inflight_ == 0) {
    ended = co_await join_in_time(call, scope);
    if (!ended) result.aborted = scope.size();
  }
  if (ended) co_return result;
  shutdown_.set(DrainState::aborting);
  scope.abort();
  // The caller's own stop has had its effect by now; the wait from here on is short and bounded.
  if (!co_await scope.join(call.shield().by(abandoned_at())))
    scope.for_each_task([&](const TaskInfo& task) { result.still_alive.emplace_back(task.name); });
  co_return result;
}

}  // namespace cairn
