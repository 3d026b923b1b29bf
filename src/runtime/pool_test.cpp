#include "runtime/pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <stdexcept>
#include <string>
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
    queue_.push_back(&job);
    return {};
  }
  bool try_withdraw(Lane, PoolJob& job) noexcept override { return std::erase(queue_, &job) > 0; }
  void begin() {
    running_ = queue_.front();
    queue_.erase(queue_.begin());
    running_->work();
  }
  void complete() { running_->completed(); }
  std::size_t queued() const { return queue_.size(); }

 private:
  std::size_t capacity_;
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

TEST(Pool, a_full_lane_refuses) {
  DrivenShard d;
  HandPool pool(1);
  std::vector<Result<int>> got;
  d.scope.spawn("a", ask(d.call(), &pool, [] { return Result<int>(1); }, &got));
  d.scope.spawn("b", ask(d.call(), &pool, [] { return Result<int>(2); }, &got));
  d.settle();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].error().code, ErrorCode::busy);
  pool.begin();
  pool.complete();
  d.settle();
  EXPECT_EQ(got[1], 1);
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
  EXPECT_EQ(pool.queued(), 0u);
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
  ThreadPool threads(LaneSizes{LaneSize{2, 64}, LaneSize{1, 64}, LaneSize{2, 64}, LaneSize{1, 64}});
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
  ThreadPool threads(LaneSizes{LaneSize{2, 512}, {}, {}, {}});
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
