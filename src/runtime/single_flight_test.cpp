#include "runtime/single_flight.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/driven_shard.h"
#include "runtime/wait.h"

namespace cairn {
namespace {

using Flights = SingleFlight<std::string, int>;

// Work of a second that ends as told and counts how often it ran and how many ran at once.
struct Work {
  int runs = 0;
  int now = 0;
  int most = 0;
  Result<int> outcome = 7;
  bool throws = false;

  Task<Result<int>> operator()(Call call) {
    ++runs;
    most = std::max(most, ++now);
    auto slept = co_await sleep_for(call, Duration::seconds(1));
    --now;
    if (!slept) co_return fail(slept.error());
    if (throws) throw std::runtime_error("work");
    co_return outcome;
  }
};

Task<> ask(Call call, Flights* flights, const char* key, Work* work, std::vector<Result<int>>* out) {
  auto answer = co_await flights->run(call, key, [work](Call inner) { return (*work)(inner); });
  out->push_back(answer);
}

TEST(SingleFlight, concurrent_callers_share_one_execution) {
  DrivenShard d;
  Flights flights(d.shard, 4, 8);
  Work work;
  std::vector<Result<int>> answers;
  for (int i = 0; i < 5; ++i) d.scope.spawn("a", ask(d.call(), &flights, "k", &work, &answers));
  d.run();
  EXPECT_EQ(work.runs, 1);
  EXPECT_EQ(answers, std::vector<Result<int>>(5, 7));
  EXPECT_EQ(flights.keys(), 0u);
  d.scope.spawn("a", ask(d.call(), &flights, "k", &work, &answers));
  d.run();
  EXPECT_EQ(work.runs, 2);
}

TEST(SingleFlight, an_error_is_shared_too) {
  DrivenShard d;
  Flights flights(d.shard, 4, 8);
  Work work;
  work.outcome = fail(ErrorCode::not_found, "k");
  std::vector<Result<int>> answers;
  for (int i = 0; i < 3; ++i) d.scope.spawn("a", ask(d.call(), &flights, "k", &work, &answers));
  d.run();
  EXPECT_EQ(work.runs, 1);
  ASSERT_EQ(answers.size(), 3u);
  for (auto& answer : answers) EXPECT_EQ(answer.error().code, ErrorCode::not_found);
}

TEST(SingleFlight, a_cancelled_leader_is_succeeded) {
  DrivenShard d;
  Flights flights(d.shard, 4, 8);
  Work work;
  std::vector<Result<int>> lost, answers;
  Scope leader(d.shard, d.call());
  leader.spawn("l", ask(leader.call(), &flights, "k", &work, &lost));
  d.settle();
  for (int i = 0; i < 3; ++i) d.scope.spawn("a", ask(d.call(), &flights, "k", &work, &answers));
  d.settle();
  leader.cancel(StopReason::client_gone);
  d.run();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].error().code, ErrorCode::cancelled);
  EXPECT_EQ(answers, std::vector<Result<int>>(3, 7));
  EXPECT_EQ(work.runs, 2);
  EXPECT_EQ(work.most, 1);
}

TEST(SingleFlight, a_leader_at_its_own_deadline_is_succeeded) {
  DrivenShard d;
  Flights flights(d.shard, 4, 8);
  Work work;
  std::vector<Result<int>> lost, answers;
  d.scope.spawn("l", ask(d.call().within(Duration::millis(10)), &flights, "k", &work, &lost));
  d.settle();
  d.scope.spawn("a", ask(d.call(), &flights, "k", &work, &answers));
  d.run();
  EXPECT_EQ(lost[0].error().code, ErrorCode::timeout);
  EXPECT_EQ(answers, std::vector<Result<int>>{7});
}

TEST(SingleFlight, a_leader_that_throws_is_succeeded) {
  DrivenShard d;
  Flights flights(d.shard, 4, 8);
  Work bad, good;
  bad.throws = true;
  std::vector<Result<int>> lost, answers;
  Scope leader(d.shard, d.call());
  leader.spawn("l", ask(leader.call(), &flights, "k", &bad, &lost));
  d.settle();
  d.scope.spawn("a", ask(d.call(), &flights, "k", &good, &answers));
  d.run();
  EXPECT_TRUE(lost.empty());
  EXPECT_EQ(answers, std::vector<Result<int>>{7});
  EXPECT_EQ(flights.keys(), 0u);
}

TEST(SingleFlight, a_promoted_caller_that_is_cancelled_before_it_runs_passes_the_lead_on) {
  DrivenShard d;
  Flights flights(d.shard, 4, 8);
  Work work;
  std::vector<Result<int>> lost, answers;
  Scope leader(d.shard, d.call()), next(d.shard, d.call());
  leader.spawn("l", ask(leader.call(), &flights, "k", &work, &lost));
  d.settle();
  next.spawn("n", ask(next.call(), &flights, "k", &work, &lost));
  d.settle();
  d.scope.spawn("a", ask(d.call(), &flights, "k", &work, &answers));
  d.settle();
  leader.cancel(StopReason::client_gone);
  d.shard.run_one();  // the leader leaves and promotes
  next.cancel(StopReason::client_gone);
  d.run();
  EXPECT_EQ(lost.size(), 2u);
  EXPECT_EQ(answers, std::vector<Result<int>>{7});
  EXPECT_EQ(flights.keys(), 0u);
}

TEST(SingleFlight, keys_and_waiters_are_bounded) {
  DrivenShard d;
  Flights flights(d.shard, 1, 1);
  Work work;
  std::vector<Result<int>> answers, busy;
  d.scope.spawn("a", ask(d.call(), &flights, "k", &work, &answers));
  d.scope.spawn("b", ask(d.call(), &flights, "k", &work, &answers));
  d.scope.spawn("c", ask(d.call(), &flights, "k", &work, &busy));
  d.scope.spawn("d", ask(d.call(), &flights, "other", &work, &busy));
  d.settle();
  ASSERT_EQ(busy.size(), 2u);
  EXPECT_EQ(busy[0].error().code, ErrorCode::busy);
  EXPECT_EQ(busy[1].error().code, ErrorCode::busy);
  d.run();
  EXPECT_EQ(answers, std::vector<Result<int>>(2, 7));
}

TEST(SingleFlight, a_waiter_that_left_frees_its_place) {
  DrivenShard d;
  Flights flights(d.shard, 1, 1);
  Work work;
  std::vector<Result<int>> answers, lost;
  Scope inner(d.shard, d.call());
  d.scope.spawn("a", ask(d.call(), &flights, "k", &work, &answers));
  d.settle();
  inner.spawn("b", ask(inner.call(), &flights, "k", &work, &lost));
  d.settle();
  inner.cancel(StopReason::client_gone);
  d.settle();
  d.scope.spawn("c", ask(d.call(), &flights, "k", &work, &answers));
  d.run();
  EXPECT_EQ(answers, std::vector<Result<int>>(2, 7));
  EXPECT_EQ(work.runs, 1);
}

}  // namespace
}  // namespace cairn
