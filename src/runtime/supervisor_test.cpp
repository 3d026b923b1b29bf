#include "runtime/supervisor.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/driven_shard.h"
#include "runtime/wait.h"

namespace cairn {
namespace {

struct Counts : TaskEvents {
  int spawned_count = 0, cancelled_count = 0, aborted_count = 0, panicked_count = 0, unhealthy_count = 0;
  std::string last_what;
  int alive = 0;
  void spawned(const TaskDeclaration&) noexcept override {
    ++spawned_count;
    ++alive;
  }
  void ended(const TaskDeclaration&) noexcept override { --alive; }
  void cancelled(const TaskDeclaration&) noexcept override { ++cancelled_count; }
  void aborted(const TaskDeclaration&) noexcept override { ++aborted_count; }
  void panicked(const TaskDeclaration&, const char* what) noexcept override {
    ++panicked_count;
    last_what = what;
  }
  void unhealthy(const TaskDeclaration&) noexcept override { ++unhealthy_count; }
};

constexpr TaskDeclaration declared[] = {{"a", "worker", "one", Criticality::essential, "", ""},
                                        {"b", "worker", "one", Criticality::essential, "", ""}};

Task<> throws_at_once() {
  throw std::runtime_error("broken");
  co_return;
}
Task<> waits_for_stop(Call call) { (void)co_await sleep_until(call, Instant::never()); }
Task<> waits_shielded(Call call) { (void)co_await sleep_until(call.shield(), Instant::never()); }
Task<> lives_then_throws(Call call, Duration life) {
  CHECK((co_await sleep_for(call, life)).has_value());
  throw std::runtime_error("late");
}

TEST(Supervisor, a_task_that_returns_is_done) {
  DrivenShard d;
  Counts counts;
  Supervisor supervisor(d.shard, declared, &counts);
  int runs = 0;
  auto body = [](int* n) -> Task<> {
    ++*n;
    co_return;
  };
  ASSERT_TRUE(supervisor.start("a", [&](Call) { return body(&runs); }).has_value());
  d.run();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(supervisor.healthy());
  EXPECT_EQ(supervisor.size(), 0u);
  EXPECT_EQ(counts.cancelled_count, 0);
}

TEST(Supervisor, a_task_that_is_made_to_fail_counts_as_one_that_threw_and_comes_back) {
  for (const bool shielded : {false, true}) {
    DrivenShard d;
    Counts counts;
    Supervisor supervisor(d.shard, declared, &counts);
    for (const char* name : {"a", "a", "b"})
      ASSERT_TRUE(
          supervisor
              .start(name, [&](Call call) { return shielded ? waits_shielded(call) : waits_for_stop(call); })
              .has_value());
    d.settle();
    supervisor.fail_tasks("a", false);
    d.settle();
    EXPECT_EQ(counts.panicked_count, shielded ? 0 : 2);
    supervisor.fail_tasks("a", true);
    d.settle();
    EXPECT_EQ(counts.panicked_count, 2);
    EXPECT_EQ(counts.last_what, "made to fail");
    d.run_for(Duration::seconds(1));
    EXPECT_EQ(counts.spawned_count, 5);
    EXPECT_TRUE(supervisor.healthy());
    EXPECT_EQ(supervisor.size(), 3u);
    supervisor.abort();
    d.run();
    EXPECT_EQ(supervisor.size(), 0u);
  }
}

TEST(Supervisor, an_exception_restarts_with_growing_waits) {
  DrivenShard d;
  Counts counts;
  Supervisor supervisor(d.shard, declared, &counts);
  std::vector<std::int64_t> starts;
  ASSERT_TRUE(supervisor
                  .start("a",
                         [&](Call call) {
                           starts.push_back(d.shard.now().ns / 1'000'000);
                           return starts.size() <= 3 ? throws_at_once() : waits_for_stop(call);
                         })
                  .has_value());
  d.run_for(Duration::seconds(30));
  ASSERT_EQ(starts.size(), 4u);
  for (std::size_t i = 1; i < starts.size(); ++i) {
    const std::int64_t window = 100 << (i - 1);
    EXPECT_GE(starts[i] - starts[i - 1], window / 2);
    EXPECT_LE(starts[i] - starts[i - 1], window + 1);
  }
  EXPECT_EQ(counts.panicked_count, 3);
  EXPECT_EQ(counts.last_what, "broken");
  EXPECT_TRUE(supervisor.healthy());
  supervisor.drain(StopReason::draining);
  d.run();
  EXPECT_EQ(counts.cancelled_count, 1);
}

TEST(Supervisor, more_than_five_restarts_in_a_minute_are_unhealthy) {
  DrivenShard d;
  Counts counts;
  Supervisor supervisor(d.shard, declared, &counts);
  ASSERT_TRUE(supervisor.start("a", [](Call) { return throws_at_once(); }).has_value());
  d.run();
  EXPECT_EQ(counts.spawned_count, 6);
  EXPECT_EQ(counts.unhealthy_count, 1);
  EXPECT_FALSE(supervisor.healthy());
  EXPECT_EQ(supervisor.size(), 0u);
}

TEST(Supervisor, restarts_spread_over_time_stay_healthy) {
  DrivenShard d;
  Counts counts;
  Supervisor supervisor(d.shard, declared, &counts);
  ASSERT_TRUE(supervisor.start("a", [](Call call) { return lives_then_throws(call, Duration::seconds(20)); })
                  .has_value());
  d.run_for(Duration::seconds(1'000));
  EXPECT_GT(counts.panicked_count, 30);
  EXPECT_TRUE(supervisor.healthy());
  supervisor.drain(StopReason::draining);
  d.settle();
}

TEST(Supervisor, a_restart_never_wins_against_a_stop) {
  DrivenShard d;
  Counts counts;
  Supervisor supervisor(d.shard, declared, &counts);
  ASSERT_TRUE(supervisor.start("a", [](Call) { return throws_at_once(); }).has_value());
  d.settle();
  ASSERT_EQ(counts.spawned_count, 1);
  // Up to the end of the wait before the restart, but not into the restart itself.
  while (d.shard.idle()) d.shard.advance(d.shard.timers().next_due());
  supervisor.drain(StopReason::draining);
  d.run();
  EXPECT_EQ(counts.spawned_count, 1);
  EXPECT_EQ(supervisor.size(), 0u);
  EXPECT_EQ(supervisor.start("b", [](Call) { return throws_at_once(); }).error().code, ErrorCode::draining);
}

TEST(Supervisor, a_task_not_yet_begun_at_the_stop_is_not_begun) {
  DrivenShard d;
  Counts counts;
  Supervisor supervisor(d.shard, declared, d.call(), &counts);
  ASSERT_TRUE(supervisor.start("a", [](Call call) { return waits_for_stop(call); }).has_value());
  d.scope.cancel(StopReason::draining);  // the parent's stop
  d.run();
  EXPECT_EQ(counts.spawned_count, 0);
  EXPECT_EQ(supervisor.size(), 0u);
}

TEST(Supervisor, abort_ends_what_a_drain_leaves) {
  DrivenShard d;
  Counts counts;
  Supervisor supervisor(d.shard, declared, &counts);
  ASSERT_TRUE(supervisor.start("a", [](Call call) { return waits_shielded(call); }).has_value());
  ASSERT_TRUE(supervisor.start("b", [](Call call) { return waits_for_stop(call); }).has_value());
  d.settle();
  supervisor.drain(StopReason::draining);
  d.settle();
  EXPECT_EQ(supervisor.size(), 1u);
  Result<> joined;
  auto join = [](Supervisor* s, Call call, Result<>* out) -> Task<> { *out = co_await s->join(call); };
  d.scope.spawn("j", join(&supervisor, d.call().within(Duration::seconds(1)), &joined));
  d.run_for(Duration::seconds(2));
  EXPECT_EQ(joined.error().code, ErrorCode::timeout);
  supervisor.abort();
  d.scope.spawn("j", join(&supervisor, d.call(), &joined));
  d.run();
  EXPECT_TRUE(joined.has_value());
  EXPECT_EQ(counts.cancelled_count, 1);
  EXPECT_EQ(counts.aborted_count, 1);
}

TEST(Supervisor, whatever_was_spawned_has_ended_when_it_is_joined) {
  DrivenShard d;
  Counts counts;
  Supervisor supervisor(d.shard, declared, &counts);
  ASSERT_TRUE(supervisor.start("a", [](Call) { return throws_at_once(); }).has_value());
  ASSERT_TRUE(supervisor.start("b", [](Call call) { return waits_for_stop(call); }).has_value());
  d.settle();
  EXPECT_EQ(counts.alive, 1);
  supervisor.drain(StopReason::draining);
  d.run();
  EXPECT_EQ(counts.alive, 0);
}

TEST(SupervisorDeath, a_task_that_is_not_declared_is_not_started) {
  DrivenShard d;
  Supervisor supervisor(d.shard, declared);
  EXPECT_DEATH((void)supervisor.start("c", [](Call) { return throws_at_once(); }), "task != declared_.end");
}

}  // namespace
}  // namespace cairn
