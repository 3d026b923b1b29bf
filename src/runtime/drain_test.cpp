#include "runtime/drain.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "runtime/driven_shard.h"
#include "runtime/wait.h"

namespace cairn {
namespace {

Task<> finish(Drain* drain, Call call, Scope* scope, std::optional<DrainResult>* out) {
  out->emplace(co_await drain->finish(call, *scope));
}
Task<> work(Call call, Drain* drain, Duration span) {
  auto guard = drain->try_enter();
  CHECK(guard.has_value());
  (void)co_await sleep_for(call, span);
}
Task<> stubborn(Call call, Drain* drain, Duration span) {
  auto guard = drain->try_enter();
  CHECK(guard.has_value());
  (void)co_await sleep_for(call.shield(), span);
}
// Ignores even the abort, for as long as it likes.
Task<> deaf(Call call, Instant until) {
  while (current_shard()->now() < until) {
    Scope own(*current_shard());
    (void)co_await sleep_until(own.call().by(until), until);
  }
  (void)call;
}
Task<> loop(Call call) { (void)co_await sleep_until(call, Instant::never()); }

struct Fixture : DrivenShard {
  Scope tasks{shard};
  Drain drain{shard};
  std::optional<DrainResult> result;
  std::vector<DrainState> states;

  void begin(Duration span) {
    drain.begin(shard.now() + span);
    scope.spawn("finish", finish(&drain, call(), &tasks, &result));
  }
};

TEST(Drain, work_that_ends_in_time_is_drained_and_loops_are_cancelled_after_it) {
  Fixture f;
  f.tasks.spawn("work", work(f.tasks.call(), &f.drain, Duration::seconds(1)));
  f.tasks.spawn("loop", loop(f.tasks.call()));
  f.settle();
  f.begin(Duration::seconds(3));
  f.run_for(Duration::millis(900));
  EXPECT_EQ(f.drain.state(), DrainState::draining);
  EXPECT_EQ(f.tasks.size(), 2u);
  f.run();
  ASSERT_TRUE(f.result.has_value());
  EXPECT_TRUE(f.result->drained());
  EXPECT_EQ(f.drain.state(), DrainState::stopped);
  EXPECT_EQ(f.shard.now(), Instant{} + Duration::seconds(1));
}

TEST(Drain, who_is_inside_may_enter_again_and_nobody_else) {
  Fixture f;
  auto inside = f.drain.try_enter();
  ASSERT_TRUE(inside.has_value());
  f.drain.begin(f.shard.now() + Duration::seconds(1));
  EXPECT_EQ(f.drain.try_enter().error().code, ErrorCode::draining);
  DrainGuard part = f.drain.enter(*inside);
  EXPECT_EQ(f.drain.inflight(), 2u);
}

TEST(Drain, work_past_the_deadline_is_aborted_and_counted) {
  Fixture f;
  f.tasks.spawn("stubborn", stubborn(f.tasks.call(), &f.drain, Duration::seconds(60)));
  f.tasks.spawn("work", work(f.tasks.call(), &f.drain, Duration::seconds(60)));
  f.tasks.spawn("loop", loop(f.tasks.call()));
  f.settle();
  f.begin(Duration::seconds(3));
  f.run();
  ASSERT_TRUE(f.result.has_value());
  EXPECT_EQ(f.result->aborted, 2u);
  EXPECT_TRUE(f.result->still_alive.empty());
  EXPECT_EQ(f.shard.now(), Instant{} + Duration::seconds(3));
}

TEST(Drain, what_lives_when_the_grace_is_over_is_named) {
  Fixture f;
  f.tasks.spawn("deaf", deaf(f.tasks.call(), Instant{} + Duration::seconds(9)));
  f.settle();
  f.begin(Duration::seconds(3));
  f.run_until(Instant{} + Duration::seconds(3) + Drain::grace + Duration::millis(1));
  ASSERT_TRUE(f.result.has_value());
  EXPECT_EQ(f.result->aborted, 1u);
  EXPECT_EQ(f.result->still_alive, std::vector<std::string>{"deaf"});
  f.run();
}

TEST(Drain, a_second_signal_aborts_at_once_while_work_or_tasks_are_waited_for) {
  for (const bool with_work : {true, false}) {
    Fixture f;
    if (with_work) f.tasks.spawn("work", work(f.tasks.call(), &f.drain, Duration::seconds(60)));
    auto shielded = [](Call call) -> Task<> {
      (void)co_await sleep_for(call.shield(), Duration::seconds(60));
    };
    f.tasks.spawn("shielded", shielded(f.tasks.call()));
    f.settle();
    f.begin(Duration::seconds(30));
    f.run_for(Duration::seconds(1));
    EXPECT_FALSE(f.result.has_value());
    f.drain.abort_now();
    f.settle();
    ASSERT_TRUE(f.result.has_value()) << with_work;
    EXPECT_EQ(f.result->aborted, 1u);
    EXPECT_TRUE(f.tasks.empty());
  }
}

TEST(Drain, the_watch_and_the_arm_tell_of_every_state) {
  Fixture f;
  auto follow = [](Call call, Drain* drain, std::vector<DrainState>* out) -> Task<> {
    auto receiver = drain->shutdown().subscribe();
    while (receiver.get() != DrainState::stopped) {
      CHECK((co_await receiver.changed(call)).has_value());
      out->push_back(receiver.get());
    }
  };
  int stopped_loops = 0;
  auto until_stopping = [](Call call, Drain* drain, int* count) -> Task<> {
    if (co_await select(call, drain->stopping())) ++*count;
  };
  f.scope.spawn("follow", follow(f.call(), &f.drain, &f.states));
  f.tasks.spawn("deaf", deaf(f.tasks.call(), Instant{} + Duration::seconds(9)));
  f.tasks.spawn("early", until_stopping(f.tasks.call(), &f.drain, &stopped_loops));
  f.settle();
  f.begin(Duration::seconds(1));
  f.tasks.spawn("late", until_stopping(f.tasks.call(), &f.drain, &stopped_loops));
  f.run();
  EXPECT_EQ(stopped_loops, 2);
  EXPECT_EQ(f.states,
            (std::vector<DrainState>{DrainState::draining, DrainState::aborting, DrainState::stopped}));
}

TEST(Drain, wait_drained_waits_for_the_begin_and_for_the_last_guard) {
  Fixture f;
  bool done = false;
  auto wait = [](Call call, Drain* drain, bool* out) -> Task<> {
    *out = (co_await drain->wait_drained(call)).has_value();
  };
  f.scope.spawn("wait", wait(f.call(), &f.drain, &done));
  f.settle();
  EXPECT_FALSE(done);
  {
    auto guard = f.drain.try_enter();
    f.drain.begin(f.shard.now() + Duration::seconds(1));
    f.settle();
    EXPECT_FALSE(done);
  }
  f.settle();
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace cairn
