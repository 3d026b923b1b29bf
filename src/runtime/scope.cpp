#include "runtime/scope.h"

#include "runtime/wait.h"

namespace cairn {

// The frame at the bottom of a spawned task: it owns the task, starts through the ready queue, and
// destroys itself at the end, telling the scope.
struct Scope::Root {
  struct promise_type : PooledFrame {
    promise_type(Scope& owner, Task<>&) noexcept : scope(owner) {}
    Root get_return_object() noexcept { return {*this}; }
    struct Start : Waiter {
      explicit Start(promise_type& p) noexcept : Waiter(p.scope.call()), promise(p) {}
      promise_type& promise;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> handle) noexcept {
        Shard& shard = promise.scope.shard_;
        ShardScope here(shard);
        TaskInfo* parent = shard.current_task();
        shard.set_current_task(&promise.node.info);
        requeue(handle);
        shard.set_current_task(parent);
      }
      void await_resume() const noexcept {}
    };
    Start initial_suspend() noexcept { return Start(*this); }
    std::suspend_never final_suspend() noexcept {
      scope.ended(node);
      return {};
    }
    void return_void() noexcept {}
    void unhandled_exception() noexcept {
      if (!scope.failure_) scope.failure_ = std::current_exception();
    }
    Scope& scope;
    TaskNode node;
  };
  promise_type& promise;
};

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): a scope outlives its tasks
Scope::Root Scope::run(Scope&, Task<> task) { co_await std::move(task); }

void Scope::spawn(const char* name, Task<> task, Waits waits) {
  ShardScope here(shard_);
  Root root = run(*this, std::move(task));
  root.promise.node.info = {name, shard_.new_identity(), waits == Waits::bounded};
  tasks_.push_back(root.promise.node);
  ++size_;
  ++shard_.live_tasks;
  shard_.trace(identity_, Access::write);
}

void Scope::ended(TaskNode& node) noexcept {
  shard_.trace(identity_, Access::write);
  node.unlink();
  --size_;
  --shard_.live_tasks;
  if (!tasks_.empty()) return;
  while (!joiners_.empty()) wake(joiners_.front());
}

Task<Result<>> Scope::join(Call call) {
  shard_.trace(identity_, Access::write);
  while (!empty()) {
    CO_TRY_VOID(co_await ListWait(call, joiners_, "join"));
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  co_return Result<>{};
}

Task<> Scope::join_all(Call call) {
  shard_.trace(identity_, Access::write);
  // An abort ends the wait before the tasks have run to their end: let them run and wait again.
  while (!empty())
    if (!co_await ListWait(call.unbounded(), joiners_, "join")) co_await yield(call);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace cairn
