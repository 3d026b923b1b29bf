// Supervisor: keeps a shard's declared background tasks running and ends them in order.
//   [U-1] After a stop was requested (drain, abort, or the parent's) no task is started or restarted, not
//         even by a restart whose wait had already ended.
//   [U-2] A task that ends with an exception is restarted after a jittered wait (100 ms doubling to 5 s). A
//         task that would need more than 5 restarts in 60 s stays down and healthy() is false from then on.
//   [U-3] A task that returns is done and is not restarted.
//   [U-4] When join() has succeeded, no task is alive.
//   [U-5] No task runs that is not declared.
// The one place, besides the connection boundary, that catches exceptions.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "runtime/declaration.h"
#include "runtime/scope.h"

namespace cairn {

// Events of tasks, for metrics and logs. Called on the shard; must not wait or throw.
class TaskEvents {
 public:
  virtual ~TaskEvents() = default;
  virtual void spawned(const TaskDeclaration&) noexcept {}
  virtual void ended(const TaskDeclaration&) noexcept {}  // each one that was spawned, however it ended
  virtual void cancelled(const TaskDeclaration&) noexcept {}
  virtual void aborted(const TaskDeclaration&) noexcept {}
  virtual void panicked(const TaskDeclaration&, const char* /*what*/) noexcept {}
  virtual void unhealthy(const TaskDeclaration&) noexcept {}  // it stays down
};

class Supervisor {
 public:
  static constexpr unsigned restarts_max = 5;
  static constexpr Duration restarts_window = Duration::seconds(60);
  static constexpr Duration restart_base = Duration::millis(100);
  static constexpr Duration restart_cap = Duration::seconds(5);

  using Factory = std::function<Task<>(Call)>;

  // `declared` outlives it; the names in it are literals.
  Supervisor(Shard& shard, std::span<const TaskDeclaration> declared, TaskEvents* events = nullptr) noexcept
      : declared_(declared), events_(events != nullptr ? *events : silent_), scope_(shard) {}
  // Below `parent`: stopping that stops this.
  Supervisor(Shard& shard, std::span<const TaskDeclaration> declared, const Call& parent,
             TaskEvents* events = nullptr) noexcept
      : declared_(declared), events_(events != nullptr ? *events : silent_), scope_(shard, parent) {}

  // The declared task of that name is factory(call); the call has no deadline and is stopped with the
  // supervisor. The factory is kept until the task is done. `draining` when a stop was already requested.
  Result<> start(std::string_view name, Factory factory);

  // Cancels every task; each returns through its own code.
  void drain(StopReason reason) noexcept { scope_.cancel(reason); }
  // Cancels shielded waits too.
  void abort() noexcept;
  // Ends the tasks of that name as if each had ended with an exception: at its next wait that can be
  // cancelled, or (`abort`) that can be aborted. For tests of whole processes.
  void fail_tasks(std::string_view name, bool abort) noexcept;
  // Waits until every task has ended. Cancel: clean (tasks may remain; join again).
  Task<Result<>> join(Call call) { return scope_.join(call); }

  // The gate: false once some task stays down.
  bool healthy() const noexcept { return healthy_; }
  bool stopping() noexcept { return scope_.call().stopped(); }
  std::size_t size() const noexcept { return scope_.size(); }
  Scope& scope() noexcept { return scope_; }

 private:
  struct Restarts;
  // One run of a task, in the frame that waits for it.
  struct Running : Link {
    Running(Shard& shard, CancelSource& parent, std::string_view task) noexcept
        : name(task), source(shard, &parent) {}
    std::string_view name;
    CancelSource source;
    bool failed = false;
  };
  Task<> keep(const TaskDeclaration& task, Factory factory);
  Task<bool> run_once(const TaskDeclaration& task, const Factory& factory);

  std::span<const TaskDeclaration> declared_;
  TaskEvents silent_;
  TaskEvents& events_;
  bool healthy_ = true;
  bool aborted_ = false;
  Scope scope_;
  List<Running> running_;
};

}  // namespace cairn
