#include "runtime/pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/driven_shard.h"

namespace cairn {
namespace {

// A pool without threads: the test says when the oldest job works and when it completes.
class HandPool final : public Pool {
 public:
  explicit HandPool(std::size_t capacity = 8) : capacity_(capacity) {}
  Result<> try_submit(Lane, PoolJob& job) override {
    if (queue_.size() == capacity_) return fail(ErrorCode::busy, "pool");
    queue_.insert(job.urgent ? queue_.begin() : queue_.end(), &job);
    return {};
  }
  bool try_withdraw(Lane lane, PoolJob& job) noexcept override {
    if (std::erase(queue_, &job) == 0) return false;
    tell_room(lane);
    return true;
  }
  std::uint64_t completed(Lane) const noexcept override { return completed_; }
  void begin() {
    running_ = queue_.front();
    queue_.erase(queue_.begin());
    tell_room(Lane::read);
    running_->work();
  }
  void complete() {
    ++completed_;
    running_->completed();
  }
  void move() { ++completed_; }  // a job of another shard
  std::size_t in_line() const { return queue_.size(); }

 private:
  std::size_t capacity_;
  std::uint64_t completed_ = 0;
  std::vector<PoolJob*> queue_;
  PoolJob* running_ = nullptr;
};

Task<> ask(Call call, Pool* pool, std::function<Result<int>()> f, std::vector<Result<int>>* out) {
  out->push_back(co_await run(*pool, call, Lane::read, std::move(f)));
}

TEST(Pool, the_waiter_gets_what_the_job_returned) {
  DrivenShard d;
  HandPool pool;
  std::vector<Result<int>> got;
  d.scope.spawn("a", ask(d.call(), &pool, [] { return Result<int>(4); }, &got));
  d.scope.spawn("b", ask(d.call(), &pool, [] { return Result<int>(fail(ErrorCode::io_failed, "x")); }, &got));
  d.settle();
  for (int i = 0; i < 2; ++i) {
    pool.begin();
    pool.complete();
    d.settle();
  }
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0], 4);
  EXPECT_EQ(got[1].error().code, ErrorCode::io_failed);
  EXPECT_EQ(pool.jobs(), 0u);
}

TEST(Pool, values_and_nothing_are_results_too) {
  DrivenShard d;
  HandPool pool;
  std::string text;
  bool fine = false;
  auto body = [](Call call, Pool* p, std::string* out, bool* ok) -> Task<> {
    Result<std::string> value = co_await run(*p, call, Lane::cpu, [] { return std::string("v"); });
    *out = *value;
    Result<> nothing = co_await run(*p, call, Lane::cpu, [] {});
    *ok = nothing.has_value();
  };
  d.scope.spawn("a", body(d.call(), &pool, &text, &fine));
  for (int i = 0; i < 2; ++i) {
    d.settle();
    pool.begin();
    pool.complete();
  }
  d.settle();
  EXPECT_EQ(text, "v");
  EXPECT_TRUE(fine);
}

TEST(Pool, an_exception_of_the_job_reaches_the_task_that_asked) {
  DrivenShard d;
  HandPool pool;
  bool caught = false;
  auto body = [](Call call, Pool* p, bool* out) -> Task<> {
    try {
      (void)co_await run(*p, call, Lane::cpu, []() -> int { throw std::runtime_error("x"); });
    } catch (const std::runtime_error&) {
      *out = true;
    }
  };
  d.scope.spawn("a", body(d.call(), &pool, &caught));
  d.settle();
  pool.begin();
  pool.complete();
  d.settle();
  EXPECT_TRUE(caught);
}

TEST(Pool, who_meets_a_full_lane_waits_for_room_in_the_order_of_asking) {
  DrivenShard d;
  HandPool pool(1);
  std::vector<Result<int>> got;
  for (int i = 0; i < 5; ++i) d.scope.spawn("a", ask(d.call(), &pool, [i] { return Result<int>(i); }, &got));
  d.settle();
  EXPECT_EQ(pool.in_line(), 1u);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(pool.in_line(), 1u) << i;
    pool.begin();
    pool.complete();
    d.settle();
  }
  ASSERT_EQ(got.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(pool.jobs(), 0u);
}

TEST(Pool, one_who_no_longer_waits_for_room_holds_up_nobody_behind_it) {
  DrivenShard d;
  HandPool pool(1);
  std::vector<Result<int>> got;
  Scope inner(d.shard, d.call());
  d.scope.spawn("a", ask(d.call(), &pool, [] { return Result<int>(1); }, &got));
  d.settle();
  inner.spawn("b", ask(inner.call(), &pool, [] { return Result<int>(2); }, &got));
  d.settle();
  d.scope.spawn("c", ask(d.call(), &pool, [] { return Result<int>(3); }, &got));
  d.settle();
  pool.begin();  // b is told
  inner.cancel(StopReason::client_gone);
  d.settle();
  pool.complete();
  for (int left = 4; left > 0 && pool.in_line() > 0; --left) {
    pool.begin();
    pool.complete();
    d.settle();
  }
  d.settle();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[2], 3);
  EXPECT_TRUE(inner.empty());
}

TEST(Pool, what_never_began_is_undone_and_what_runs_is_not) {
  DrivenShard d;
  HandPool pool(1);
  std::vector<Result<int>> got;
  const auto work = [] { return Result<int>(1); };
  Scope running(d.shard, d.call());
  running.spawn("runs", ask(running.call(), &pool, work, &got));
  d.settle();
  pool.begin();
  d.scope.spawn("queued", ask(d.call().within(Duration::millis(5)), &pool, work, &got));
  d.scope.spawn("waits for room", ask(d.call().within(Duration::millis(6)), &pool, work, &got));
  d.run();
  ASSERT_EQ(got.size(), 2u);
  for (const Result<int>& each : got) {
    EXPECT_EQ(each.error().code, ErrorCode::timeout);
    EXPECT_TRUE(each.error().undone);
  }
  running.cancel(StopReason::client_gone);
  d.settle();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_FALSE(got[2].error().undone);
  pool.complete();
}

TEST(Pool, a_wait_that_must_not_stall_goes_on_while_its_lane_moves) {
  DrivenShard d;
  HandPool pool(1);
  std::vector<Result<int>> got;
  LaneUse lanes;
  lanes.stall = Duration::millis(10);
  const Call patient = d.call().in_lanes(lanes);
  const auto work = [] { return Result<int>(1); };
  d.scope.spawn("queued", ask(patient, &pool, work, &got));
  d.scope.spawn("waits for room", ask(patient, &pool, work, &got));
  d.settle();
  for (int i = 0; i < 20; ++i) {
    pool.move();
    d.run_for(Duration::millis(9));
  }
  EXPECT_TRUE(got.empty());
  d.run_for(Duration::millis(50));
  ASSERT_EQ(got.size(), 2u);
  for (const Result<int>& each : got) {
    EXPECT_EQ(each.error().code, ErrorCode::timeout);
    EXPECT_TRUE(each.error().undone);
  }
}

TEST(Pool, a_request_that_cannot_begin_soon_is_refused_and_one_that_has_begun_comes_first) {
  DrivenShard d;
  HandPool pool;
  std::vector<Result<int>> got;
  std::vector<int> order;
  const auto work = [&order](int n) {
    return [&order, n] {
      order.push_back(n);
      return Result<int>(n);
    };
  };
  LaneUse late, begun;
  late.begin_within = begun.begin_within = Duration::millis(10);
  begun.begun = true;
  const Call call = d.call().within(Duration::millis(100));
  d.scope.spawn("other", ask(call, &pool, work(1), &got));
  d.scope.spawn("late", ask(call.in_lanes(late), &pool, work(2), &got));
  d.scope.spawn("begun", ask(call.in_lanes(begun), &pool, work(3), &got));
  d.settle();
  d.run_for(Duration::millis(20));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].error().code, ErrorCode::busy);
  EXPECT_TRUE(got[0].error().undone);
  for (int i = 0; i < 2; ++i) {
    pool.begin();
    pool.complete();
    d.settle();
  }
  EXPECT_EQ(order, (std::vector<int>{3, 1}));
}

TEST(Pool, a_request_whose_job_runs_is_not_refused_for_beginning_late) {
  DrivenShard d;
  HandPool pool;
  std::vector<Result<int>> got;
  LaneUse lanes;
  lanes.begin_within = Duration::millis(10);
  d.scope.spawn("a", ask(
                         d.call().within(Duration::millis(100)).in_lanes(lanes), &pool,
                         [] { return Result<int>(1); }, &got));
  d.settle();
  pool.begin();
  d.run_for(Duration::millis(50));
  EXPECT_TRUE(got.empty());
  pool.complete();
  d.settle();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0], 1);
  EXPECT_TRUE(lanes.begun);
}

TEST(Pool, a_job_still_queued_at_the_deadline_never_runs) {
  DrivenShard d;
  HandPool pool;
  std::vector<Result<int>> got;
  int runs = 0;
  const auto count = [&runs] { return Result<int>(++runs); };
  d.scope.spawn("a", ask(d.call().within(Duration::millis(5)), &pool, count, &got));
  d.run();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].error().code, ErrorCode::timeout);
  EXPECT_EQ(pool.in_line(), 0u);
  EXPECT_EQ(pool.orphaned(), 0u);
  EXPECT_EQ(pool.jobs(), 0u);
  EXPECT_EQ(runs, 0);
}

TEST(Pool, a_running_job_outlives_its_waiter_and_is_counted_until_it_completes) {
  DrivenShard d;
  HandPool pool;
  std::vector<Result<int>> got;
  auto buffer = std::make_shared<int>(1);
  Scope inner(d.shard, d.call());
  inner.spawn("a", ask(inner.call(), &pool, [buffer] { return Result<int>(*buffer); }, &got));
  d.settle();
  pool.begin();
  inner.cancel(StopReason::client_gone);
  d.settle();
  EXPECT_EQ(got.at(0).error().code, ErrorCode::cancelled);
  EXPECT_EQ(pool.orphaned(), 1u);
  EXPECT_EQ(buffer.use_count(), 2);  // the job still owns it
  pool.complete();
  EXPECT_EQ(pool.orphaned(), 0u);
  EXPECT_EQ(pool.jobs(), 0u);
  EXPECT_EQ(buffer.use_count(), 1);
}

TEST(Pool, a_completion_that_meets_the_cancel_is_not_lost) {
  DrivenShard d;
  HandPool pool;
  std::vector<Result<int>> got;
  Scope inner(d.shard, d.call());
  inner.spawn("a", ask(inner.call(), &pool, [] { return Result<int>(3); }, &got));
  d.settle();
  pool.begin();
  inner.cancel(StopReason::client_gone);
  pool.complete();
  d.settle();
  EXPECT_EQ(got.at(0), 3);
  EXPECT_EQ(pool.orphaned(), 0u);
}

// A shard whose loop blocks on a bell the mailbox rings.
struct RealShard {
  Guarded<int, 0> rings{0};
  std::condition_variable bell;
  Shard shard;
  Mailbox mailbox{[this] {
    rings.with([](int& count) { ++count; });
    bell.notify_one();
  }};

  // Runs until the scope is empty.
  void run(Scope& scope) {
    while (!scope.empty()) {
      {
        ShardScope here(shard);
        while (!shard.idle()) shard.run_one();
        mailbox.drain();
      }
      if (scope.empty() || !shard.idle() || !mailbox.arm()) continue;
      rings.wait(bell, [](int& count) { return count > 0; }, [](int& count) { --count; });
    }
  }
};

TEST(ThreadPool, only_the_lane_that_no_answer_waits_for_leaves_the_cores_to_others) {
  ThreadPool threads(LaneSizes{});
  threads.start();
  RealShard real;
  {
    PoolPort port(threads, real.mailbox);
    Scope scope(real.shard);
    std::array<int, lane_count> priorities{};
    auto body = [](Call call, Pool* pool, Lane lane, int* priority) -> Task<> {
      *priority = *co_await run(*pool, call, lane, [] { return getpriority(PRIO_PROCESS, 0); });
    };
    for (std::size_t i = 0; i < lane_count; ++i)
      scope.spawn("asks", body(scope.call(), &port, static_cast<Lane>(i), &priorities[i]));
    real.run(scope);
    const int usual = getpriority(PRIO_PROCESS, 0);
    for (std::size_t i = 0; i < lane_count; ++i)
      EXPECT_EQ(priorities[i], static_cast<Lane>(i) == Lane::cpu ? std::min(19, usual + 10) : usual) << i;
  }
  threads.stop();
}

TEST(ThreadPool, jobs_of_every_lane_complete_on_their_shard) {
  ThreadPool threads(LaneSizes{LaneSize{2, 64}, LaneSize{1, 64}, LaneSize{2, 64}, LaneSize{1, 64}, {}, {}});
  threads.start();
  RealShard real;
  {
    PoolPort port(threads, real.mailbox);
    Scope scope(real.shard);
    std::vector<int> sums(lane_count);
    auto body = [](Call call, Pool* pool, Lane lane, int* sum) -> Task<> {
      for (int i = 1; i <= 100; ++i) *sum += *co_await run(*pool, call, lane, [i] { return i; });
    };
    for (std::size_t lane = 0; lane < lane_count; ++lane)
      scope.spawn("a", body(scope.call(), &port, static_cast<Lane>(lane), &sums[lane]));
    real.run(scope);
    EXPECT_EQ(sums, std::vector<int>(lane_count, 5050));
  }
  threads.stop();
}

TEST(ThreadPool, room_is_told_to_every_shard_that_met_the_lane_full) {
  ThreadPool threads(LaneSizes{LaneSize{1, 1}, {}, {}, {}, {}, {}});
  threads.start();
  constexpr int asks = 300, tasks = 4;
  struct Side {
    RealShard real;
    std::optional<PoolPort> port;
    int done = 0;
  };
  std::array<Side, 2> sides;
  for (Side& side : sides) side.port.emplace(threads, side.real.mailbox);
  const auto drive = [](Side& side) {
    Scope scope(side.real.shard);
    auto body = [](Call call, Side* of) -> Task<> {
      for (int i = 0; i < asks; ++i)
        if (co_await run(*of->port, call, Lane::read, [] {})) ++of->done;
    };
    for (int i = 0; i < tasks; ++i) scope.spawn("asks", body(scope.call(), &side));
    side.real.run(scope);
  };
  std::thread other([&] { drive(sides[1]); });
  drive(sides[0]);
  other.join();
  threads.stop();
  for (Side& side : sides) {
    EXPECT_EQ(side.done, asks * tasks);
    ShardScope here(side.real.shard);
    side.real.mailbox.drain();
    side.port.reset();
  }
}

TEST(ThreadPool, a_lane_has_a_thread_for_each_seat) {
  ThreadPool threads(LaneSizes{});
  threads.start();
  RealShard real;
  {
    PoolPort port(threads, real.mailbox);
    const PoolSeat first(port, Lane::commit), second(port, Lane::commit), third(port, Lane::commit);
    EXPECT_EQ(threads.threads(Lane::commit), 3u);
    EXPECT_EQ(threads.threads(Lane::read), 1u);
    // Two steps that wait for each other end: neither waits for the other's thread.
    std::atomic<int> met{0};
    Scope scope(real.shard);
    auto body = [](Call call, Pool* pool, std::atomic<int>* count) -> Task<> {
      (void)co_await run(*pool, call, Lane::commit, [count] {
        ++*count;
        while (*count < 3) std::this_thread::yield();
      });
    };
    for (int i = 0; i < 3; ++i) scope.spawn("commits", body(scope.call(), &port, &met));
    real.run(scope);
  }
  threads.stop();
}

TEST(ThreadPool, stop_finishes_what_is_queued_and_then_refuses) {
  ThreadPool threads(LaneSizes{});
  threads.start();
  RealShard real;
  {
    ShardScope here(real.shard);
    PoolPort port(threads, real.mailbox);
    Scope scope(real.shard);
    std::atomic<int> done{0};
    int refused = 0;
    auto body = [](Call call, Pool* pool, std::atomic<int>* count, int* no) -> Task<> {
      if (!co_await run(*pool, call, Lane::commit, [count] { ++*count; })) ++*no;
    };
    for (int i = 0; i < 20; ++i) scope.spawn("a", body(scope.call(), &port, &done, &refused));
    while (!real.shard.idle()) real.shard.run_one();
    threads.stop();
    EXPECT_EQ(done.load(), 20);
    EXPECT_EQ(port.jobs(), 20u);
    real.mailbox.drain();
    scope.spawn("late", body(scope.call(), &port, &done, &refused));
    while (!real.shard.idle()) real.shard.run_one();
    EXPECT_EQ(refused, 1);
    EXPECT_TRUE(scope.empty());
  }
}

TEST(ThreadPool, cancelled_waiters_leave_nothing_behind_once_stopped) {
  ThreadPool threads(LaneSizes{LaneSize{2, 512}, {}, {}, {}, {}, {}});
  threads.start();
  RealShard real;
  {
    ShardScope here(real.shard);
    PoolPort port(threads, real.mailbox);
    for (int round = 0; round < 50; ++round) {
      Scope scope(real.shard);
      auto body = [](Call call, Pool* pool) -> Task<> {
        (void)co_await run(*pool, call, Lane::read,
                           [bytes = std::vector<int>(64, 1)] { return bytes.size(); });
      };
      for (int i = 0; i < 8; ++i) scope.spawn("a", body(scope.call(), &port));
      while (!real.shard.idle()) real.shard.run_one();
      real.mailbox.drain();
      scope.cancel(StopReason::client_gone);
      while (!real.shard.idle()) real.shard.run_one();
      EXPECT_TRUE(scope.empty());
    }
    threads.stop();
    real.mailbox.drain();
    EXPECT_EQ(port.orphaned(), 0u);
    EXPECT_EQ(port.jobs(), 0u);
  }
}

}  // namespace
}  // namespace cairn
