// Drain: how a shard's part of a service comes to its end: running -> draining -> stopped, or by way of
// aborting when the time is up.
//   [D-1] The state only moves forward.
//   [D-2] Once draining, no new work enters; admitted work may enter again for its parts.
//   [D-3] finish() reports `drained` only if all admitted work left and every task ended by itself in time.
//         Otherwise it reports how many were aborted, and the names of the tasks that still lived when the
//         grace was over.
//   [D-4] After the deadline there is one grace for all that is left: the abort, the end of background tasks,
//         a service's stop. The process's watchdog ends the process a moment later.
// The second stop signal is abort_now().
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/scope.h"
#include "runtime/watch.h"

namespace cairn {

enum class DrainState : std::uint8_t { running, draining, aborting, stopped };
const char* name_of(DrainState state) noexcept;

class Drain;

// A piece of work that draining waits for.
class DrainGuard {
 public:
  DrainGuard() = default;
  DrainGuard(DrainGuard&& other) noexcept : drain_(std::exchange(other.drain_, nullptr)) {}
  DrainGuard& operator=(DrainGuard&& other) noexcept {
    std::swap(drain_, other.drain_);
    return *this;
  }
  ~DrainGuard();
  explicit operator bool() const noexcept { return drain_ != nullptr; }

 private:
  friend class Drain;
  explicit DrainGuard(Drain& drain) noexcept;
  Drain* drain_ = nullptr;
};

struct DrainResult {
  std::size_t aborted = 0;               // pieces of work and tasks that did not end in time
  std::vector<std::string> still_alive;  // tasks that lived when the grace was over
  bool drained() const noexcept { return aborted == 0; }
};

class Drain {
 public:
  static constexpr Duration grace = Duration::millis(700);
  // A task that was told to end gets at least this long, however late it is.
  static constexpr Duration least = Duration::millis(50);

  explicit Drain(Shard& shard)
      : shard_(shard), identity_(shard.new_identity()), shutdown_(shard, DrainState::running) {}
  ~Drain() { CHECK(inflight_ == 0 && waiters_.empty() && begun_.empty() && nearer_ == nullptr); }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  // `draining` once begun.
  Result<DrainGuard> try_enter() noexcept;
  // For a part of work already admitted: never refused.
  DrainGuard enter(const DrainGuard& admitted) noexcept;

  // Stops admission. A second call may only bring the deadline forward.
  void begin(Instant deadline) noexcept;
  void abort_now() noexcept { begin(shard_.now()); }

  DrainState state() const noexcept { return shutdown_.value(); }
  std::size_t inflight() const noexcept { return inflight_; }
  Instant deadline() const noexcept { return deadline_; }
  // The end of the time for an orderly end; and the time at which even aborted work is abandoned.
  Instant orderly_until() const noexcept { return at_least(deadline_ + grace / 2); }
  Instant abandoned_at() const noexcept { return at_least(std::min(deadline_, shard_.now()) + grace); }

  // The service's `shutdown` watch. A receiver made after begin() has seen it: loops use stopping().
  Watch<DrainState>& shutdown() noexcept { return shutdown_; }
  // For select: ready as soon as, and as long as, draining has begun.
  SelectArm stopping() noexcept;

  // Waits until draining has begun and no work is inside. Cancel: clean.
  Task<Result<>> wait_drained(Call call);

  // Call once, after begin(). Waits for the work until the deadline, then cancels the tasks of `scope` and
  // waits for those; when the time is up, aborts the rest. `scope` must not hold the calling task. Rethrows
  // the first exception of a task of `scope`, after all have ended.
  // Cancel: partial — as if the deadline had passed.
  Task<DrainResult> finish(Call call, Scope& scope);

 private:
  friend class DrainGuard;
  class Stopped {
   public:
    explicit Stopped(Drain& drain) noexcept : drain_(drain) {}
    ~Stopped();
    Stopped(const Stopped&) = delete;
    Stopped& operator=(const Stopped&) = delete;

   private:
    Drain& drain_;
  };
  Instant at_least(Instant instant) const noexcept { return std::max(instant, shard_.now() + least); }
  void touch() const noexcept { shard_.trace(identity_, Access::write); }
  void wake_all() noexcept;
  Task<Result<>> join_in_time(Call call, Scope& scope);

  Shard& shard_;
  std::uint64_t identity_;
  std::size_t inflight_ = 0;
  Instant deadline_ = Instant::never();
  Watch<DrainState> shutdown_;
  WaitList waiters_;                // for inflight_ == 0, or a nearer deadline
  WaitList begun_;                  // select arms of stopping()
  CancelSource* nearer_ = nullptr;  // ends the join of finish() when the deadline comes nearer
};

}  // namespace cairn
