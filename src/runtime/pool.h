// Pool: where blocking work goes, so that no shard ever blocks. Lanes keep kinds of work apart: a slow
// disk does not hold up name lookups.
//   [J-1] A lane's queue is bounded; a full one refuses (`busy`) and never waits.
//   [J-2] A job's work() runs at most once, on a lane thread; its completion runs exactly once after it,
//         on the shard that submitted it.
//   [J-3] A job owns what it works on until it completes. A waiter that left (deadline, cancel) leaves the
//         job behind: still queued, it is taken back and never runs; running, it is counted in orphaned()
//         until it completes and its state is dropped on its shard.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/mailbox.h"
#include "runtime/task.h"
#include "runtime/wait.h"

namespace cairn {

// `cpu` is for work that no answer waits for: its threads leave the cores to all others. About a tenth stays
// theirs even so: a lock of theirs is soon given back, and who waits for room gets it.
enum class Lane : std::uint8_t { read, commit, cpu, dns };
inline constexpr std::size_t lane_count = 4;
const char* name_of(Lane lane) noexcept;

class Pool;

// Made, completed and destroyed on the shard; worked on elsewhere in between.
class PoolJob : public Link, public MailItem {
 public:
  explicit PoolJob(Pool& pool) noexcept;
  virtual ~PoolJob();
  // On a lane thread. Must not touch the shard or throw.
  virtual void work() noexcept = 0;
  // On the shard, after work(). May delete the job.
  virtual void completed() noexcept = 0;

 protected:
  Pool& pool_;

 private:
  friend class ThreadPool;
  friend class PoolPort;
  Mailbox* home_ = nullptr;
};

// A shard's way to its pool. Real: PoolPort. Simulated: runs work() when and as late as the seed says, then
// completed(); never completed() from inside try_submit.
class Pool {
 public:
  Pool() = default;
  virtual ~Pool() { CHECK(jobs_ == 0); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // `busy` when the lane's queue is full, `closed` after stop: the job is untouched then.
  virtual Result<> try_submit(Lane lane, PoolJob& job) = 0;
  // True when the job had not begun: it will not run and not complete.
  virtual bool try_withdraw(Lane lane, PoolJob& job) noexcept = 0;

  std::size_t jobs() const noexcept { return jobs_; }
  // Jobs that run on although their waiter has left.
  std::size_t orphaned() const noexcept { return orphaned_.load(std::memory_order_relaxed); }

 private:
  friend class PoolJob;
  template <class F>
  friend class FunctionJob;
  std::size_t jobs_ = 0;
  std::atomic<std::size_t> orphaned_{0};  // written by the shard, read by whoever scrapes
};

inline PoolJob::PoolJob(Pool& pool) noexcept : pool_(pool) {
  deliver = [](MailItem& item) { static_cast<PoolJob&>(item).completed(); };
  ++pool_.jobs_;
}
inline PoolJob::~PoolJob() {
  CHECK(!linked());
  --pool_.jobs_;
}

struct LaneSize {
  unsigned threads = 1;
  std::size_t queue = 256;
};
using LaneSizes = std::array<LaneSize, lane_count>;  // by Lane

// The threads. Process-wide; each shard reaches it through its own PoolPort.
class ThreadPool {
 public:
  explicit ThreadPool(const LaneSizes& sizes);
  ~ThreadPool();  // precondition: not started, or stopped
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void start();
  // Refuses new jobs, finishes what is queued, joins every thread. Completions are in the mailboxes then:
  // drain those before the ports go. Blocks.
  void stop();
  std::size_t queued(Lane lane) const noexcept;
  // Jobs whose work() runs now. From any thread.
  std::size_t working(Lane lane) const noexcept;

 private:
  friend class PoolPort;
  struct State {
    List<PoolJob> jobs;
    std::size_t depth = 0;
    bool open = false;
    bool stopping = false;
  };
  struct LaneState {
    LaneSize size;
    Guarded<State, lock_rank::pool_lane> state;
    std::condition_variable changed;
    std::atomic<std::size_t> working{0};  // publishes nothing else
    std::vector<std::thread> threads;
  };
  LaneState& at(Lane lane) noexcept { return lanes_[static_cast<std::size_t>(lane)]; }
  Result<> try_submit(Lane lane, PoolJob& job);
  bool try_withdraw(Lane lane, PoolJob& job) noexcept;
  static void serve(LaneState& lane, bool leave_cores_to_others);

  std::array<LaneState, lane_count> lanes_;
};

// One shard's port: completions come back through its mailbox.
class PoolPort final : public Pool {
 public:
  PoolPort(ThreadPool& threads, Mailbox& home) noexcept : threads_(threads), home_(home) {}
  Result<> try_submit(Lane lane, PoolJob& job) override;
  bool try_withdraw(Lane lane, PoolJob& job) noexcept override { return threads_.try_withdraw(lane, job); }

 private:
  ThreadPool& threads_;
  Mailbox& home_;
};

template <class R>
struct Flattened {
  using type = R;
};
template <class R>
struct Flattened<std::expected<R, Error>> {
  using type = R;
};
// What run() yields for f: R, whether f returns R or Result<R>.
template <class F>
using PoolValue = typename Flattened<std::invoke_result_t<F&>>::type;

template <class F>
class FunctionJob final : public PoolJob {
 public:
  FunctionJob(Pool& pool, F f) : PoolJob(pool), f_(std::move(f)) {}

  void work() noexcept override {
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
        f_();
        result_.emplace();
      } else {
        result_.emplace(f_());
      }
    } catch (...) {  // belongs to the task that asked
      exception_ = std::current_exception();
    }
  }
  void completed() noexcept override {
    done_ = true;
    if (orphan_) {
      --pool_.orphaned_;
      delete this;
      return;
    }
    while (!waiters_.empty()) wake(waiters_.front());
  }

  bool done() const noexcept { return done_; }
  WaitList& waiters() noexcept { return waiters_; }
  Result<PoolValue<F>> take() {
    if (exception_) std::rethrow_exception(exception_);
    return std::move(*result_);
  }
  // From here on the job deletes itself when it completes.
  static void abandon(std::unique_ptr<FunctionJob> job) noexcept {
    ++job->pool_.orphaned_;
    job->orphan_ = true;
    (void)job.release();
  }

 private:
  F f_;
  std::optional<Result<PoolValue<F>>> result_;
  std::exception_ptr exception_;
  WaitList waiters_;
  bool done_ = false;
  bool orphan_ = false;
};

// Runs f() on a lane and waits for what it returns (R or Result<R>); an exception of f is rethrown here.
// f owns everything it uses. `pool` outlives the job.
// Cancel: partial — a job still queued never runs; one that runs goes on unseen, its result is dropped.
template <class F>
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): as said above
Task<Result<PoolValue<F>>> run(Pool& pool, Call call, Lane lane, F f) {
  auto job = std::make_unique<FunctionJob<F>>(pool, std::move(f));
  CO_TRY_VOID(pool.try_submit(lane, *job));
  Result<> waited;
  if (!job->done()) waited = co_await ListWait(call, job->waiters(), "pool");
  if (job->done()) co_return job->take();
  if (!pool.try_withdraw(lane, *job)) FunctionJob<F>::abandon(std::move(job));
  co_return fail(waited.error());
}

}  // namespace cairn
