// Pool: where blocking work goes, so that no shard ever blocks. Lanes keep kinds of work apart: a slow
// disk does not hold up name lookups, and no number of readers holds up a commit.
//   [J-1] A lane's queue is bounded; a full one refuses (`busy`) and never waits. run() waits for room in it;
//         the callers of one shard wait in the order of asking. Requests in flight and tasks are the only
//         callers that may wait.
//   [J-2] A job's work() runs at most once, on a lane thread; its completion runs exactly once after it,
//         on the shard that submitted it.
//   [J-3] A job owns its data until it completes. A waiter that left (deadline, cancel) leaves the job
//         behind: still queued, it is taken back and never runs; running, it is counted in orphaned() until
//         it completes and its state is dropped on its shard.
//   [J-4] An error of run() is `undone` exactly when f was not begun: the lane stayed full, the pool has
//         ended, or the job was taken back. After any other end of the wait f may be done, now or later.
//   [J-5] A lane that refused and has room again tells every shard that it refused, in turn. No caller that
//         waits for room is forgotten while others get in.
//   [J-6] A wait with a stall limit (LaneUse::stall) is given up only after its lane completed nothing for
//         that long.
//   [J-7] In a lane's queue, the jobs of requests that have begun come first. A request that cannot begin
//         soon is refused while its client can still use the answer (LaneUse). So an overloaded lane
//         completes whole requests, not parts of many.
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
#include "runtime/lane.h"
#include "runtime/mailbox.h"
#include "runtime/task.h"
#include "runtime/wait.h"

namespace cairn {

// The threads of Lane::cpu run at low priority. They still get about a tenth of a core's time, so that they
// soon give back a lock and the lane's queue moves. In commit, index, upkeep and cpu each task of a log has a
// thread (PoolSeat).

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
  bool urgent = false;  // goes before the jobs that wait already

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
  // The callers of this shard that wait for room in one lane.
  struct Room {
    WaitList waiting;
    bool entering = false;  // the first waiter was woken and has not run yet
  };

  Pool() noexcept {
    if (Shard* shard = current_shard()) identity_ = shard->new_identity();
  }
  virtual ~Pool() { CHECK(jobs_ == 0); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // `busy` when the lane's queue is full, `closed` after stop: the job is untouched then. After a `busy` the
  // pool calls tell_room() on this shard when there may be room.
  virtual Result<> try_submit(Lane lane, PoolJob& job) = 0;
  // True when the job had not begun: it will not run and not complete.
  virtual bool try_withdraw(Lane lane, PoolJob& job) noexcept = 0;
  // Jobs that the lane has completed so far, for all shards.
  virtual std::uint64_t completed(Lane lane) const noexcept = 0;
  // Adds or removes a seat (PoolSeat).
  virtual void add_seat(Lane) {}
  virtual void remove_seat(Lane) noexcept {}
  // Jobs of all shards that wait for a thread of the lane. From any thread.
  virtual std::size_t queued(Lane) const noexcept { return 0; }
  virtual std::size_t threads(Lane) const noexcept { return 0; }  // 0: as many as the simulation says

  Room& room(Lane lane) noexcept {
    if (Shard* shard = current_shard()) shard->trace(identity_, Access::write);
    return rooms_[static_cast<std::size_t>(lane)];
  }
  // Wakes the first caller that waits for room, which tries again. Once it has tried, it wakes the next.
  void tell_room(Lane lane) noexcept {
    Room& room = this->room(lane);
    if (room.entering || room.waiting.empty()) return;
    room.entering = true;
    wake(room.waiting.front());
  }

  std::size_t jobs() const noexcept { return jobs_; }
  // Jobs that run on although their waiter has left.
  std::size_t orphaned() const noexcept { return orphaned_.load(std::memory_order_relaxed); }

 private:
  friend class PoolJob;
  template <class F>
  friend class FunctionJob;
  std::size_t jobs_ = 0;
  std::uint64_t identity_ = 0;
  std::array<Room, lane_count> rooms_;
  std::atomic<std::size_t> orphaned_{0};  // written by the shard, read by the metrics scrape
};

inline PoolJob::PoolJob(Pool& pool) noexcept : pool_(pool) {
  deliver = [](MailItem& item) { static_cast<PoolJob&>(item).completed(); };
  ++pool_.jobs_;
}
inline PoolJob::~PoolJob() {
  CHECK(!linked());
  --pool_.jobs_;
}

// A task that holds a seat and submits one job at a time never waits for another task's job: the lane has a
// thread for each seat, and never fewer threads than it began with.
class PoolSeat {
 public:
  PoolSeat(Pool& pool, Lane lane) : pool_(pool), lane_(lane) { pool_.add_seat(lane_); }
  ~PoolSeat() { pool_.remove_seat(lane_); }
  PoolSeat(const PoolSeat&) = delete;
  PoolSeat& operator=(const PoolSeat&) = delete;

 private:
  Pool& pool_;
  Lane lane_;
};

// The threads. Process-wide; each shard reaches it through its own PoolPort.
class ThreadPool {
 public:
  explicit ThreadPool(const LaneSizes& sizes);
  ~ThreadPool();  // precondition: not started, or stopped
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void start();
  // Refuses new jobs, finishes the queued ones, joins every thread. The completions are then in the
  // mailboxes: drain those before the ports are destroyed. Blocks.
  void stop();
  std::size_t queued(Lane lane) const noexcept;
  // Jobs whose work() runs now. From any thread.
  std::size_t working(Lane lane) const noexcept;
  std::size_t threads(Lane lane) const noexcept;

  // The two steps of a lane's thread, for a driver that decides itself when a thread runs. try_take() takes
  // the first job, or returns null when the queue is empty. finish() runs it and gives it back to its shard.
  PoolJob* try_take(Lane lane) noexcept;
  void finish(Lane lane, PoolJob& job) noexcept { finish(at(lane), job); }

 private:
  friend class PoolPort;
  // The mail that tells one shard that a lane has room again. It is on the lane's list from a refusal until
  // there is room, then in the shard's mailbox, then on no list.
  struct RoomMail : Link, MailItem {
    Mailbox* home = nullptr;
    Pool* pool = nullptr;
    Lane lane{};
    bool told = false;
  };
  struct State {
    List<PoolJob> jobs;
    List<RoomMail> refused;
    std::vector<std::thread> threads;
    std::size_t depth = 0;
    std::size_t seats = 0;
    bool open = false;
    bool stopping = false;
  };
  struct LaneState {
    LaneSize size;
    bool leaves_cores = false;
    Guarded<State, lock_rank::pool_lane> state;
    std::condition_variable changed;
    std::atomic<std::size_t> working{0};  // publishes no other memory
    std::atomic<std::uint64_t> completed{0};
  };
  LaneState& at(Lane lane) noexcept { return lanes_[static_cast<std::size_t>(lane)]; }
  const LaneState& at(Lane lane) const noexcept { return lanes_[static_cast<std::size_t>(lane)]; }
  Result<> try_submit(Lane lane, PoolJob& job, RoomMail& mail);
  bool try_withdraw(Lane lane, PoolJob& job) noexcept;
  void add_seat(Lane lane);
  void remove_seat(Lane lane) noexcept;
  struct Taken {
    PoolJob* job = nullptr;
    RoomMail* told = nullptr;
  };
  static Taken take(State& state) noexcept;
  static RoomMail* take_refused(State& state) noexcept;
  static void finish(LaneState& lane, PoolJob& job) noexcept;
  static void add_thread(LaneState& lane, State& state);
  static void serve(LaneState& lane);

  std::array<LaneState, lane_count> lanes_;
};

// One shard's port: completions come back through its mailbox.
class PoolPort : public Pool {
 public:
  PoolPort(ThreadPool& threads, Mailbox& home) noexcept;
  ~PoolPort() override;
  Result<> try_submit(Lane lane, PoolJob& job) override;
  bool try_withdraw(Lane lane, PoolJob& job) noexcept override { return threads_.try_withdraw(lane, job); }
  std::uint64_t completed(Lane lane) const noexcept override;
  void add_seat(Lane lane) override { threads_.add_seat(lane); }
  void remove_seat(Lane lane) noexcept override { threads_.remove_seat(lane); }
  std::size_t queued(Lane lane) const noexcept override { return threads_.queued(lane); }
  std::size_t threads(Lane lane) const noexcept override { return threads_.threads(lane); }

 private:
  ThreadPool& threads_;
  Mailbox& home_;
  std::array<ThreadPool::RoomMail, lane_count> mails_;
};

template <class R>
struct Flattened {
  using type = R;
};
template <class R>
struct Flattened<std::expected<R, Error>> {
  using type = R;
};
// The value type of run(f): R, whether f returns R or Result<R>.
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
    } catch (...) {  // rethrown in the task that called run()
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

// co_await RoomWait(call, pool.room(lane), first): waits until the lane may have room. `first`: ahead of the
// others.
class RoomWait : public Waiter {
 public:
  RoomWait(const Call& call, Pool::Room& room, bool first) noexcept
      : Waiter(call), room_(room), first_(first) {}
  bool await_ready() noexcept { return !may_wait(); }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    own(node_);
    if (first_)
      room_.waiting.push_front(node_);
    else
      room_.waiting.push_back(node_);
    begin(handle);
  }
  [[nodiscard]] Result<> await_resume() const noexcept {
    if (why() != Wake::ready) return fail(error("pool"));
    room_.entering = false;
    return {};
  }

 private:
  Pool::Room& room_;
  bool first_;
  WaitNode node_;
};

// How long run() waits for one job, and the error when it gives up. It follows the call's deadline and its
// LaneUse.
class LaneWatch {
 public:
  LaneWatch(const Pool& pool, const Call& call, Lane lane) noexcept;
  // The call to wait under next: it ends at the nearest limit.
  Call span() const noexcept;
  // Whether to wait on after `waited`: only the stall limit ended, and the lane completed jobs meanwhile
  // (J-6).
  bool goes_on(const Result<>& waited) noexcept;
  // The same for a job that turned out to be running: `begin_within` no longer applies to it.
  bool goes_on_running(const Result<>& waited) noexcept;
  // Why a job did not begin.
  Error refusal(const Error& ended) const noexcept;
  // Whether the job goes before the jobs of requests that have not begun.
  bool urgent() const noexcept { return use_ != nullptr && use_->begun && use_->begin_within.ns > 0; }
  void done() noexcept {
    if (use_ != nullptr) use_->begun = true;
  }

 private:
  bool is_late() const noexcept;

  const Pool& pool_;
  const Call& call_;
  LaneUse* use_;
  Lane lane_;
  Instant begin_by_;
  std::uint64_t seen_;
};

// [J-1] Waits until a lane that is full has room, and submits the job. On an error the job was not submitted.
// Cancel: clean.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<>> wait_for_room(Pool& pool, LaneWatch& watch, Lane lane, PoolJob& job);

// Runs f() on a lane and waits for its result (R or Result<R>). An exception of f is rethrown here. f owns
// everything it uses. `pool` outlives the job.
// Cancel: partial — a job still queued never runs, and the error is `undone`; a job that already runs goes
// on, and its result is dropped.
template <class F>
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): as said above
Task<Result<PoolValue<F>>> run(Pool& pool, Call call, Lane lane, F f) {
  auto job = std::make_unique<FunctionJob<F>>(pool, std::move(f));
  // Most calls find room at once and need no coroutine frame to wait for it.
  LaneWatch watch(pool, call, lane);
  job->urgent = watch.urgent();
  const Pool::Room& room = pool.room(lane);
  const bool others = room.entering || !room.waiting.empty();
  Result<> entered = others ? fail(ErrorCode::busy, "pool") : pool.try_submit(lane, *job);
  if (!entered && entered.error().code == ErrorCode::busy)
    entered = co_await wait_for_room(pool, watch, lane, *job);
  if (!entered) co_return fail(watch.refusal(entered.error()).as_undone());
  Result<> waited;
  do {
    do {
      if (!job->done()) waited = co_await ListWait(watch.span(), job->waiters(), "pool");
    } while (!job->done() && watch.goes_on(waited));
    if (job->done()) {
      watch.done();
      co_return job->take();
    }
    if (pool.try_withdraw(lane, *job)) co_return fail(watch.refusal(waited.error()).as_undone());
  } while (watch.goes_on_running(waited));
  FunctionJob<F>::abandon(std::move(job));
  co_return fail(waited.error());
}

}  // namespace cairn
