#include "runtime/supervisor.h"

#include <algorithm>
#include <array>
#include <exception>
#include <stdexcept>

#include "runtime/backoff.h"
#include "runtime/wait.h"

namespace cairn {

// The times of the latest restarts of one task.
struct Supervisor::Restarts {
  std::array<Instant, restarts_max> times{};
  unsigned made = 0;

  Instant oldest() const noexcept { return times[made % restarts_max]; }
  Instant newest() const noexcept { return times[(made - 1) % restarts_max]; }
  bool used_up(Instant now) const noexcept {
    return made >= restarts_max && now - oldest() < restarts_window;
  }
  bool quiet(Instant now) const noexcept { return made > 0 && now - newest() >= restarts_window; }
  void note(Instant now) noexcept { times[made++ % restarts_max] = now; }
};

Result<> Supervisor::start(std::string_view name, Factory factory) {
  const auto task = std::ranges::find(declared_, name, &TaskDeclaration::name);
  CHECK(task != declared_.end());  // U-5
  if (stopping()) return fail(ErrorCode::draining, "start task");
  ShardScope here(scope_.shard());
  scope_.spawn(task->name.data(), keep(*task, std::move(factory)));
  return {};
}

void Supervisor::abort() noexcept {
  aborted_ = true;
  scope_.abort();
}

void Supervisor::fail_tasks(std::string_view name, bool abort) noexcept {
  running_.for_each([&](Running& running) {
    if (name != running.name) return;
    running.failed = true;
    if (abort)
      running.source.abort();
    else
      running.source.cancel(StopReason::aborted);
  });
}

// True when the task returned, false when it ended with an exception.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): keep() holds it and waits
Task<bool> Supervisor::run_once(const TaskDeclaration& task, const Factory& factory) {
  events_.spawned(task);
  Running running(scope_.shard(), scope_.source(), task.name);
  running_.push_back(running);
  struct Off {
    Running& running;
    TaskEvents& events;
    const TaskDeclaration& task;
    ~Off() {
      running.unlink();
      events.ended(task);
    }
  } off{running, events_, task};
  try {
    co_await factory(scope_.call().under(running.source));
    if (running.failed) throw std::runtime_error("made to fail");
    co_return true;
  } catch (const std::exception& exception) {
    events_.panicked(task, exception.what());
  } catch (...) {
    events_.panicked(task, "not a std::exception");
  }
  co_return false;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): declarations outlive the supervisor
Task<> Supervisor::keep(const TaskDeclaration& task, Factory factory) {
  Shard& shard = scope_.shard();
  Backoff backoff({restart_base, restart_cap, 0});
  Restarts restarts;
  // The stop is looked at right before each start, with no suspension in between: a restart whose wait
  // ended in the same turn as the stop must not win.
  while (!stopping()) {
    if (co_await run_once(task, factory)) break;
    if (stopping()) break;
    const Instant now = shard.now();
    if (restarts.used_up(now)) {
      healthy_ = false;
      events_.unhealthy(task);
      co_return;
    }
    if (restarts.quiet(now)) backoff.reset();
    restarts.note(now);
    if (!co_await sleep_for(scope_.call(), *backoff.next(shard.random()))) break;
  }
  if (!stopping()) co_return;
  if (aborted_)
    events_.aborted(task);
  else
    events_.cancelled(task);
}

}  // namespace cairn
