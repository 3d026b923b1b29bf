// Scope: owns tasks. When it is destroyed, none is alive.
//   [S-1] A task spawned into a scope has ended before the scope's destructor runs (CHECKed).
//   [S-2] A scope's stop reaches every task in it and every scope below it.
//   [S-3] A task that ends with an exception is reported by join() (the first one), after all have ended.
// A scope below another is made from the parent's Call, so that stopping the parent stops it too.
#pragma once

#include <exception>

#include "base/result.h"
#include "runtime/cancel.h"
#include "runtime/task.h"

namespace cairn {

// Of a spawned task: must each of its waits have a deadline?
enum class Waits : std::uint8_t { freely, bounded };

class Scope {
 public:
  explicit Scope(Shard& shard) noexcept
      : shard_(shard), cancel_(shard, nullptr), identity_(shard.new_identity()) {}
  Scope(Shard& shard, const Call& parent) noexcept
      : shard_(shard), cancel_(shard, &parent.cancel()), identity_(shard.new_identity()) {}
  ~Scope() { CHECK(tasks_.empty()); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  Shard& shard() noexcept { return shard_; }
  CancelSource& source() noexcept { return cancel_; }
  // The call of a background loop of this scope: no deadline of its own, stopped with the scope.
  Call call() noexcept { return {Instant::never(), cancel_}; }

  // Queues the task; it runs when the shard gets to it. `name` is a literal.
  void spawn(const char* name, Task<> task, Waits waits = Waits::freely);

  void cancel(StopReason reason) noexcept { cancel_.cancel(reason); }
  void abort() noexcept { cancel_.abort(); }
  bool empty() const noexcept { return size() == 0; }
  std::size_t size() const noexcept {
    shard_.trace(identity_, Access::read);
    return size_;
  }
  template <class F>
  void for_each_task(F visit);  // visit(const TaskInfo&)

  // Waits until every task has ended. On a deadline or cancel tasks may remain: decide and join again.
  // Rethrows the first exception of a task. Cancel: clean.
  Task<Result<>> join(Call call);
  // Waits until every task has ended, even when the caller is stopped. For a scope in the caller's own frame,
  // which its tasks must not outlive. It does not stop the tasks: their own scope, or one above it, does.
  // Rethrows the first exception of a task.
  // Cancel: shielded — not even an abort ends it before the tasks have ended.
  Task<> join_all(Call call);

  struct Root;

 private:
  friend struct Root;
  struct TaskNode : Link {
    TaskInfo info;
  };
  static Root run(Scope& scope, Task<> task);
  void ended(TaskNode& node) noexcept;

  Shard& shard_;
  CancelSource cancel_;
  std::uint64_t identity_;
  List<TaskNode> tasks_;
  std::size_t size_ = 0;
  WaitList joiners_;
  std::exception_ptr failure_;
};

template <class F>
void Scope::for_each_task(F visit) {
  shard_.trace(identity_, Access::read);
  tasks_.for_each([&](TaskNode& node) { visit(static_cast<const TaskInfo&>(node.info)); });
}

}  // namespace cairn
