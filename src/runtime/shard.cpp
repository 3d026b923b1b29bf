#include "runtime/shard.h"

#include "runtime/cancel.h"

namespace cairn {
namespace {
thread_local Shard* shard_of_thread = nullptr;
}

Shard* current_shard() noexcept { return shard_of_thread; }

ShardScope::ShardScope(Shard& shard) noexcept : previous_(shard_of_thread) { shard_of_thread = &shard; }
ShardScope::~ShardScope() { shard_of_thread = previous_; }

void Shard::run(Waiter& waiter) {
  static_cast<ReadyNode&>(waiter).unlink();
  Shard* previous = shard_of_thread;
  shard_of_thread = this;
  set_current_task(waiter.task_);
  waiter.handle_.resume();
  set_current_task(nullptr);
  shard_of_thread = previous;
  CHECK(held_locks == 0);  // no lock across a suspension
}

void Shard::advance(Instant now) {
  if (now > now_) now_ = now;
  timers_.advance(now_, [](TimerNode& node) { static_cast<Waiter&>(node).wake(Wake::deadline); });
}

void Shard::fire(Waiter& waiter) noexcept {
  trace(clock_identity, Access::write);
  const Instant due{waiter.tick * TimerWheel::tick.ns};
  if (due > now_) now_ = due;
  waiter.wake(Wake::deadline);
}

namespace {
bool may_last(const Call& call) noexcept { return call.deadline() == Instant::never() && !call.shielded(); }
}  // namespace

bool Waiter::may_wait() noexcept {
  shard_ = current_shard();
  task_ = shard_->current_task();
  if (call_.cancel().stops(call_)) {
    why_ = Wake::cancelled;
    return false;
  }
  if (call_.deadline() != Instant::never() && call_.deadline() <= shard_->now()) {
    why_ = Wake::deadline;
    return false;
  }
  return true;
}

void Waiter::begin(std::coroutine_handle<> handle) noexcept {
  CHECK(shard_->held_locks == 0);
  if (shard_->tracer() != nullptr) [[unlikely]]
    CHECK(task_ == nullptr || !task_->bounded || !may_last(call_));
  handle_ = handle;
  why_ = Wake::none;
  call_.cancel().add(*this, call_.shielded());
  if (call_.deadline() != Instant::never()) shard_->timers().arm(*this, call_.deadline());
}

void Waiter::own(WaitNode& node, std::uint8_t arm) noexcept {
  node.owner = this;
  node.arm = arm;
  node.verdict = 0;
  node.sibling = nodes_;
  nodes_ = &node;
}

void Waiter::resume_later(std::coroutine_handle<> handle) noexcept {
  shard_ = current_shard();
  task_ = shard_->current_task();
  handle_ = handle;
  why_ = Wake::ready;
}

void Waiter::requeue(std::coroutine_handle<> handle) noexcept {
  resume_later(handle);
  shard_->make_ready(*this);
}

void Waiter::requeue_next_turn(std::coroutine_handle<> handle) noexcept {
  resume_later(handle);
  shard_->make_ready_next_turn(*this);
}

void Waiter::wake(Wake why, std::uint8_t arm) noexcept {
  CHECK(why_ == Wake::none);
  if (task_ != nullptr) shard_->trace(task_->identity, Access::write);
  why_ = why;
  arm_ = arm;
  for (WaitNode* node = nodes_; node != nullptr; node = node->sibling) node->unlink();
  shard_->timers().disarm(*this);
  static_cast<CancelNode&>(*this).unlink();
  shard_->make_ready(*this);
}

Error Waiter::error(const char* context) const noexcept {
  if (why_ == Wake::deadline) return {ErrorCode::timeout, context, Side::self, StopReason::deadline};
  return {ErrorCode::cancelled, context, Side::self, call_.cancel().reason()};
}

Call Call::within(Duration span) const noexcept { return by(current_shard()->now() + span); }
bool Call::stopped() const noexcept { return cancel().stops(*this); }
bool Call::expired() const noexcept {
  return deadline_ != Instant::never() && deadline_ <= current_shard()->now();
}

CancelSource::CancelSource(Shard& shard, CancelSource* parent) noexcept
    : shard_(shard), identity_(shard.new_identity()) {
  if (parent == nullptr) return;
  // Made stopped when the parent already is: a late child must not escape the stop.
  reason_ = parent->reason_;
  aborted_ = parent->aborted_;
  shard_.trace(parent->identity_, Access::read);
  parent->children_.push_back(*this);
}

CancelSource::~CancelSource() {
  CHECK(waits_.empty() && shielded_.empty() && children_.empty());
  if (linked()) unlink();
}

bool CancelSource::stops(const Call& call) const noexcept {
  shard_.trace(identity_, Access::read);
  return aborted_ || (reason_ != StopReason::none && !call.shielded());
}

void CancelSource::add(Waiter& waiter, bool shielded) noexcept {
  (shielded ? shielded_ : waits_).push_back(waiter);
}

void CancelSource::wake_all(List<Waiter, CancelNode>& waits) noexcept {
  while (!waits.empty()) waits.front().wake(Wake::cancelled);
}

void CancelSource::cancel(StopReason reason) noexcept {
  shard_.trace(identity_, Access::write);
  if (reason_ == StopReason::none) reason_ = reason;
  wake_all(waits_);
  children_.for_each([&](CancelSource& child) { child.cancel(reason); });
}

void CancelSource::abort() noexcept {
  shard_.trace(identity_, Access::write);
  aborted_ = true;
  if (reason_ == StopReason::none) reason_ = StopReason::aborted;
  wake_all(waits_);
  wake_all(shielded_);
  children_.for_each([](CancelSource& child) { child.abort(); });
}

}  // namespace cairn
