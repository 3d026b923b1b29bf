#include "services/index/lookup.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "io/sim/world.h"
#include "services/index/simulated_targets.h"

namespace cairn::index {
namespace {

constexpr Duration ms(std::int64_t count) { return Duration::millis(count); }
Act here(Duration delay) { return {.delay = delay, .answer = sample_answer(sample_provider())}; }
Act not_here(Duration delay) { return {.delay = delay}; }
Act named(Duration delay, std::uint64_t sequence) {
  return {.delay = delay, .answer = sample_answer(sample_change({.sequence = sequence}))};
}
Act breaks(Duration delay, ErrorCode code = ErrorCode::connection_lost) {
  return {.delay = delay, .answer = fail(code, "a test", Side::upstream)};
}
Act silent() { return {.silent = true}; }

struct Counted final : LookupEvents {
  void ended(Duration) noexcept override { ++lookups; }
  void retried(const Target&) noexcept override { ++retries; }
  void late(const Target&) noexcept override { ++lates; }
  void shut(const Target&) noexcept override { ++shuts; }
  int lookups = 0, retries = 0, lates = 0, shuts = 0;
};

class LookupTest : public testing::Test {
 protected:
  ~LookupTest() override {
    for (const auto& target : targets) EXPECT_EQ(target->under_way, 0);
    EXPECT_EQ(world.live_tasks(), 0u);
  }

  ScriptedTarget& add(std::deque<Act> acts) {
    targets.push_back(scripted("t" + std::to_string(targets.size()), std::move(acts)));
    return *targets.back();
  }
  ScriptedTarget& add(Act act) { return add(std::deque<Act>{std::move(act)}); }

  void begin(Question question) {
    node.scope().spawn("lookup", ask(node.scope().call(), std::move(question)));
  }
  // Runs to the end; how long it took.
  Duration run(Question question) {
    const Instant began = world.now();
    begin(std::move(question));
    EXPECT_TRUE(world.run_until([this] { return outcome.has_value(); }));
    return ended - began;
  }
  Task<> ask(Call call, Question question) {
    outcome =
        co_await lookups.run(call, std::move(question), Targets(targets.begin(), targets.end()), policy);
    ended = current_shard()->now();
  }
  Task<> ask_and_catch(Call call, Question question) {
    try {
      co_await ask(call, std::move(question));
    } catch (const std::bad_alloc&) {
      outcome = fail(ErrorCode::internal, "thrown");
    }
  }
  ErrorCode code() const { return outcome->has_value() ? ErrorCode::ok : outcome->error().code; }
  // The breaker of every target opens.
  void open(const ScriptedTarget& target) {
    {
      const ShardScope here_now(node.shard());
      for (std::size_t i = 0; i < BreakerTable::outcomes_least; ++i)
        breakers.try_begin(target.name(), node.mailbox())->end(false);
    }
    Scope janitor(node.shard(), node.scope().call());
    janitor.spawn("janitor", breakers.run(janitor.call()));
    world.run_for(ms(10));
    {
      const ShardScope here_now(node.shard());
      janitor.cancel(StopReason::draining);
    }
    world.run_until([&] { return janitor.empty(); });
  }

  io::sim::World world{1};
  io::sim::Node& node = world.add_node("index");
  SampleJudge judge;
  Counted events;
  BreakerTable breakers{node.shard(), node.mailbox(), {}};
  Lookups lookups{node.shard(), node.mailbox(), breakers, judge, &events};
  LookupPolicy policy;
  std::vector<std::shared_ptr<ScriptedTarget>> targets;
  std::optional<Result<Finding>> outcome;
  Instant ended{};
  const Question address = sample_address(1), name = std::string("docs/readme");
};

void expect_about(Duration took, Duration wanted, Duration slack = ms(50)) {
  EXPECT_GE(took, wanted - slack) << took.to_millis();
  EXPECT_LE(took, wanted + slack) << took.to_millis();
}

// [LU-1]
TEST_F(LookupTest, the_first_answer_wins_and_the_others_are_cancelled_and_joined) {
  add(silent());
  add(here(ms(20)));
  add(here(ms(90)));
  const Duration took = run(address);
  ASSERT_EQ(code(), ErrorCode::ok);
  EXPECT_LT(took, ms(60));
  EXPECT_EQ((*outcome)->answer.providers.size(), 1u);
  EXPECT_FALSE((*outcome)->waves.beta);
  for (int i : {0, 2})
    EXPECT_EQ(targets[static_cast<std::size_t>(i)]->last_stop->stop, StopReason::superseded);
}

// [LU-4]
TEST_F(LookupTest, alpha_at_once_and_beta_after_the_hedge) {
  for (int i = 0; i < 7; ++i) add(silent());
  begin(address);
  world.run_for(ms(100));
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(targets[i]->asked, i < 3 ? 1 : 0);
  world.run_for(ms(100));
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(targets[i]->asked, i < 5 ? 1 : 0);
  world.run_until([this] { return outcome.has_value(); });
  EXPECT_EQ(targets[5]->asked, 0);
}

TEST_F(LookupTest, an_alpha_target_dropped_mid_flight_loses_to_beta) {
  add(breaks(ms(60)));
  add(silent());
  add(silent());
  add(here(ms(40)));
  expect_about(run(address), ms(190));
  ASSERT_EQ(code(), ErrorCode::ok);
  EXPECT_TRUE((*outcome)->waves.beta_won);
  expect_about((*outcome)->waves.alpha, ms(190));
  expect_about(*(*outcome)->waves.beta, ms(40));
}

// [LU-2]
TEST_F(LookupTest, silent_targets_are_answered_at_the_deadline) {
  for (int i = 0; i < 5; ++i) add(silent());
  expect_about(run(address), ms(1200));
  EXPECT_EQ(code(), ErrorCode::timeout);
  EXPECT_EQ(events.lates, 5);
}

TEST_F(LookupTest, one_silent_target_alone_is_answered_at_the_deadline) {
  add(silent());
  expect_about(run(name), ms(1200));
  EXPECT_EQ(code(), ErrorCode::timeout);
}

TEST_F(LookupTest, targets_that_break_all_the_time_are_never_a_404) {
  for (int i = 0; i < 5; ++i) add(breaks(ms(1)));
  EXPECT_LE(run(address), ms(1250));
  EXPECT_EQ(code(), ErrorCode::timeout);
}

TEST_F(LookupTest, the_earlier_deadline_of_the_caller_holds) {
  add(silent());
  const Instant began = world.now();
  node.scope().spawn("lookup", ask(node.scope().call().by(began + ms(300)), address));
  world.run_until([this] { return outcome.has_value(); });
  expect_about(ended - began, ms(300));
  EXPECT_EQ(code(), ErrorCode::timeout);
}

// [LU-2]
TEST_F(LookupTest, not_found_only_when_all_that_were_asked_say_so) {
  for (int i = 0; i < 4; ++i) add(not_here(ms(10)));
  EXPECT_LT(run(address), ms(60));
  EXPECT_EQ(code(), ErrorCode::not_found);
  EXPECT_EQ(targets[3]->asked, 0);
}

TEST_F(LookupTest, one_failed_target_among_many_that_have_nothing_is_no_404) {
  add(not_here(ms(10)));
  add(breaks(ms(10), ErrorCode::forbidden));
  add(not_here(ms(10)));
  run(address);
  EXPECT_EQ(code(), ErrorCode::timeout);
}

TEST_F(LookupTest, beta_begins_early_when_nothing_can_come_from_alpha) {
  for (int i = 0; i < 3; ++i) add(breaks(ms(10), ErrorCode::forbidden));
  add(here(ms(10)));
  EXPECT_LT(run(address), ms(100));
  ASSERT_EQ(code(), ErrorCode::ok);
  EXPECT_TRUE((*outcome)->waves.beta_won);
}

TEST_F(LookupTest, a_single_failure_begins_nothing_early) {
  add(breaks(ms(10), ErrorCode::forbidden));
  add(silent());
  add(silent());
  add(here(ms(10)));
  expect_about(run(address), ms(160));
}

TEST_F(LookupTest, two_targets_that_agree_settle_a_name) {
  add(silent());
  add(named(ms(10), 4));
  add(named(ms(30), 4));
  EXPECT_LT(run(name), ms(80));
  ASSERT_EQ(code(), ErrorCode::ok);
  EXPECT_EQ((*outcome)->answer.changes.at(0).change.sequence, 4u);
}

TEST_F(LookupTest, one_of_beta_settles_what_alpha_left_open) {
  add(named(ms(10), 4));
  add(silent());
  add(silent());
  add(named(ms(10), 4));
  expect_about(run(name), ms(160));
  ASSERT_EQ(code(), ErrorCode::ok);
  EXPECT_TRUE((*outcome)->waves.beta_won);
}

// [LU-3]
TEST_F(LookupTest, only_what_may_pass_is_tried_again_and_so_often) {
  add(breaks(ms(1)));
  add(breaks(ms(1), ErrorCode::busy));
  policy.alpha = 2;
  const Duration took = run(address);
  EXPECT_EQ(targets[0]->asked, 4);
  EXPECT_EQ(targets[1]->asked, 1);
  EXPECT_EQ(events.retries, 3);
  EXPECT_GE(took, ms(150));
  EXPECT_LE(took, ms(350));
}

TEST_F(LookupTest, a_fault_that_passes_costs_only_a_jittered_wait) {
  add(std::deque<Act>{breaks(ms(1)), here(ms(1))});
  const Duration took = run(address);
  EXPECT_EQ(code(), ErrorCode::ok);
  EXPECT_GE(took, ms(50));
  EXPECT_LE(took, ms(150));
}

// [LU-3]
TEST_F(LookupTest, nothing_is_tried_again_through_an_open_breaker) {
  ScriptedTarget& target = add(std::deque<Act>{breaks(ms(500)), here(ms(1))});
  begin(address);
  world.run_for(ms(300));
  open(target);
  world.run_until([this] { return outcome.has_value(); });
  EXPECT_EQ(target.asked, 1);
  EXPECT_EQ(code(), ErrorCode::timeout);
  EXPECT_EQ(events.shuts, 1);
}

// [LU-4]
TEST_F(LookupTest, the_next_best_is_asked_in_place_of_an_open_breaker) {
  for (int i = 0; i < 5; ++i) add(silent());
  open(*targets[1]);
  begin(address);
  world.run_for(ms(100));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(targets[i]->asked, i == 1 || i == 4 ? 0 : 1);
  world.run_until([this] { return outcome.has_value(); });
}

// [LU-2]
TEST_F(LookupTest, without_a_target_that_may_be_asked_it_is_503_at_once) {
  EXPECT_EQ(run(address), Duration{});
  EXPECT_EQ(code(), ErrorCode::degraded);
  outcome.reset();
  open(add(here(ms(1))));
  EXPECT_EQ(run(address), Duration{});
  EXPECT_EQ(code(), ErrorCode::breaker_open);
}

TEST_F(LookupTest, a_stop_of_the_caller_ends_it_with_its_reason) {
  add(silent());
  Scope caller(node.shard(), node.scope().call());
  caller.spawn("lookup", ask(caller.call(), address));
  world.run_for(ms(30));
  {
    const ShardScope here_now(node.shard());
    caller.cancel(StopReason::draining);
  }
  world.run_until([this] { return outcome.has_value(); });
  EXPECT_EQ(outcome->error(), Error(ErrorCode::cancelled, "", Side::self, StopReason::draining));
  EXPECT_EQ(targets[0]->last_stop->stop, StopReason::draining);
  world.run_until([&] { return caller.empty(); });
}

TEST_F(LookupTest, a_target_that_throws_is_joined_before_its_exception_goes_on) {
  add({.delay = ms(10), .throws = true});
  add(silent());
  node.scope().spawn("lookup", ask_and_catch(node.scope().call(), address));
  world.run_until([this] { return outcome.has_value(); });
  EXPECT_EQ(code(), ErrorCode::internal);
}

TEST_F(LookupTest, a_target_with_little_time_is_not_blamed) {
  policy.deadline = ms(100);
  add(silent());
  run(address);
  EXPECT_EQ(breakers.waiting(), 0u);
  policy.deadline = ms(200);
  outcome.reset();
  run(address);
  EXPECT_EQ(breakers.waiting(), 1u);
}

// --- whatever targets do

Act draw_act() {
  const Duration delay = ms(*rc::gen::inRange(0, 1500));
  switch (*rc::gen::inRange(0, 8)) {
    case 0:
      return here(delay);
    case 1:
      return silent();
    case 2:
      return breaks(delay, ErrorCode::forbidden);
    case 3:
      return breaks(delay);
    case 4:
      return {.delay = delay, .answer = sample_answer(sample_provider({.key = SampleJudge::liar}))};
    default:
      return not_here(delay);
  }
}
struct Any final : LookupTest {
  void TestBody() override {}
  // [LU-1] [LU-2] [LU-3] [LU-4]
  void judge_one() {
    const auto count = *rc::gen::inRange<std::size_t>(1, 8);
    for (std::size_t i = 0; i < count; ++i)
      add(std::deque<Act>{draw_act(), draw_act(), draw_act(), draw_act(), draw_act()});
    policy.alpha = *rc::gen::inRange<std::size_t>(1, 5);
    policy.beta = *rc::gen::inRange<std::size_t>(0, 4);
    const Duration took = run(address);
    RC_ASSERT(took <= ms(1250));
    std::size_t asked = 0;
    for (const auto& target : targets) {
      asked += target->asked > 0 ? 1 : 0;
      RC_ASSERT(target->under_way == 0);
      RC_ASSERT(target->asked <= 4);
    }
    RC_ASSERT(asked >= 1 && asked <= policy.alpha + policy.beta);
    RC_ASSERT(code() == ErrorCode::ok || code() == ErrorCode::not_found || code() == ErrorCode::timeout);
    RC_ASSERT(code() != ErrorCode::timeout || took >= ms(1150) || breakers.waiting() > 0);
    if (code() == ErrorCode::ok) RC_ASSERT(is_fresh((*outcome)->answer.providers.at(0).record, sample_now));
  }
};
RC_GTEST_PROP(AnyLookup, ends_in_time_with_what_its_targets_said, ()) { Any().judge_one(); }

TEST(Targets, are_asked_the_best_first) {
  const auto made = [](std::string name, std::uint32_t latency, std::string region) {
    return std::make_shared<ScriptedTarget>(Target::Facts{std::move(name), std::move(region), latency},
                                            std::deque<Act>{});
  };
  BreakerTable::Snapshot table;
  table.entries["open"] = {Breaker::State::open, 1};
  table.entries["half"] = {Breaker::State::half_open, 2};
  const Targets sorted = best_first({made("open", 0, "eu"), made("half", 0, "eu"), made("far", 2, "eu"),
                                     made("us", 1, "us"), made("b", 1, "eu"), made("a", 1, "eu")},
                                    table, "eu");
  std::vector<std::string> names;
  for (const TargetPtr& target : sorted) names.push_back(target->name());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "us", "far", "half", "open"}));
}

}  // namespace
}  // namespace cairn::index
