#include "services/index/flights.h"

#include <gtest/gtest.h>

#include <map>

#include "io/sim/world.h"
#include "runtime/wait.h"
#include "services/index/simulated_targets.h"

namespace cairn::index {
namespace {

constexpr Duration ms(std::int64_t count) { return Duration::millis(count); }

// Three shards. A flight takes `lasts` and finds one provider.
class FlightsTest : public testing::Test {
 protected:
  static constexpr unsigned shards = 3;
  ~FlightsTest() override {
    stop();
    world.run_for(ms(10));
    EXPECT_EQ(flights->flying(), 0u);
    EXPECT_EQ(flights->waiting(), 0u);
    EXPECT_EQ(world.live_tasks(), 0u);
  }
  void start(FlightLimits limits = {}) {
    flights.emplace(limits, 7);
    for (unsigned i = 0; i < shards; ++i) {
      const ShardScope here(node.shard(i));
      flights->attach(node.shard(i), node.mailbox(i),
                      [this](Call call, Question question) { return work(call, std::move(question)); });
      dispatchers[i] = std::make_unique<Scope>(node.shard(i), node.scope(i).call());
      dispatchers[i]->spawn("flights", flights->run(dispatchers[i]->call()));
    }
  }
  void stop() {
    for (unsigned i = 0; i < shards; ++i) {
      const ShardScope here(node.shard(i));
      dispatchers[i]->cancel(StopReason::draining);
    }
    for (auto& scope : dispatchers) world.run_until([&] { return scope->empty(); });
  }
  Task<Result<FindingPtr>> work(Call call, Question question) {
    ++begun[question];
    const unsigned shard = current_shard()->index();
    EXPECT_TRUE(homes.emplace(question, shard).first->second == shard);
    const auto slept = co_await sleep_for(call, lasts);
    ++ended;
    if (throws) throw std::bad_alloc();
    if (!slept) {
      last_stop = slept.error();
      co_return fail(slept.error());
    }
    if (fails) co_return fail(ErrorCode::not_found, "a test");
    co_return std::make_shared<const Finding>(sample_answer(sample_provider()), Waves{});
  }
  struct Asked {
    std::optional<Result<FindingPtr>> answer;
    ErrorCode code() const {
      return !answer ? ErrorCode::internal : *answer ? ErrorCode::ok : answer->error().code;
    }
  };
  Task<> wait(Call call, Question question, unsigned shard, Asked* out) {
    out->answer = co_await flights->ask(call, std::move(question), node.mailbox(shard));
  }
  Asked& ask(Question question, unsigned shard, Scope* scope = nullptr,
             Duration within = Duration::seconds(60)) {
    Asked& out = asked.emplace_back();
    Scope& in = scope != nullptr ? *scope : node.scope(shard);
    in.spawn("asker", wait(in.call().by(world.now() + within), std::move(question), shard, &out));
    return out;
  }

  io::sim::World world{1};
  io::sim::Node& node = world.add_node("index", shards);
  std::optional<Flights> flights;
  std::array<std::unique_ptr<Scope>, shards> dispatchers;
  std::deque<Asked> asked;
  std::map<Question, int> begun;
  std::map<Question, unsigned> homes;
  int ended = 0;
  Duration lasts = ms(100);
  bool fails = false, throws = false;
  std::optional<Error> last_stop;
  const Question one = sample_address(1);
};

// [FH-1]
TEST_F(FlightsTest, a_flood_of_misses_for_one_key_is_one_lookup) {
  start();
  for (unsigned i = 0; i < 90; ++i) ask(one, i % shards);
  world.run_for(ms(50));
  EXPECT_EQ(flights->flying(), 1u);
  for (unsigned i = 0; i < 9; ++i) ask(one, i % shards);
  world.run_for(ms(100));
  EXPECT_EQ(begun[one], 1);
  for (const Asked& each : asked) {
    ASSERT_EQ(each.code(), ErrorCode::ok);
    EXPECT_EQ(*each.answer, *asked.front().answer);
  }
  ask(one, 0);
  world.run_for(ms(200));
  EXPECT_EQ(begun[one], 2);
}

TEST_F(FlightsTest, an_error_is_shared_as_well) {
  start();
  fails = true;
  for (unsigned i = 0; i < 6; ++i) ask(one, i % shards);
  world.run_for(ms(200));
  for (const Asked& each : asked) EXPECT_EQ(each.code(), ErrorCode::not_found);
  EXPECT_EQ(begun[one], 1);
}

TEST_F(FlightsTest, questions_are_spread_over_the_shards) {
  start();
  for (unsigned char i = 0; i < 60; ++i) ask(sample_address(i), i % shards);
  world.run_for(ms(200));
  std::array<int, shards> each{};
  for (const auto& [question, shard] : homes) ++each[shard];
  for (const int count : each) EXPECT_GT(count, 5);
}

// [FH-2] [FH-3]
TEST_F(FlightsTest, it_survives_its_first_caller) {
  start();
  Scope first(node.shard(1), node.scope(1).call());
  Asked& leaver = ask(one, 1, &first);
  world.run_for(ms(10));
  Asked& stayer = ask(one, 2);
  world.run_for(ms(10));
  {
    const ShardScope here(node.shard(1));
    first.cancel(StopReason::client_gone);
  }
  world.run_for(ms(10));
  EXPECT_EQ(leaver.answer->error(), Error(ErrorCode::cancelled, "", Side::self, StopReason::client_gone));
  EXPECT_FALSE(stayer.answer);
  world.run_for(ms(100));
  EXPECT_EQ(stayer.code(), ErrorCode::ok);
  EXPECT_EQ(begun[one], 1);
}

// [FH-2]
TEST_F(FlightsTest, it_goes_on_when_all_have_left) {
  start();
  Scope all(node.shard(0), node.scope().call());
  for (int i = 0; i < 3; ++i) ask(one, 0, &all);
  world.run_for(ms(10));
  {
    const ShardScope here(node.shard());
    all.cancel(StopReason::client_gone);
  }
  world.run_for(ms(10));
  EXPECT_TRUE(all.empty());
  Asked& later = ask(one, 1);
  world.run_for(ms(100));
  EXPECT_EQ(later.code(), ErrorCode::ok);
  EXPECT_EQ(begun[one], 1);
  EXPECT_FALSE(last_stop);
}

// [FH-3]
TEST_F(FlightsTest, each_has_a_deadline_of_its_own) {
  start();
  Asked& hurried = ask(one, 0, nullptr, ms(30));
  Asked& patient = ask(one, 1);
  world.run_for(ms(60));
  EXPECT_EQ(hurried.code(), ErrorCode::timeout);
  EXPECT_FALSE(patient.answer);
  world.run_for(ms(100));
  EXPECT_EQ(patient.code(), ErrorCode::ok);
}

// [FH-2]
TEST_F(FlightsTest, it_has_an_end_whoever_waits) {
  start();
  lasts = Duration::seconds(100);
  Asked& patient = ask(one, 0);
  world.run_for(ms(1150));
  EXPECT_FALSE(patient.answer);
  world.run_for(ms(100));
  EXPECT_EQ(patient.code(), ErrorCode::timeout);
  EXPECT_EQ(last_stop->code, ErrorCode::timeout);
}

// [FH-4]
TEST_F(FlightsTest, too_many_waiters_of_one_flight_are_busy) {
  start({.waiters_max = 4});
  for (unsigned i = 0; i < 4; ++i) ask(one, i % shards);
  world.run_for(ms(10));
  Asked& fifth = ask(one, 0);
  Asked& other = ask(sample_address(2), 0);
  world.run_for(ms(10));
  EXPECT_EQ(fifth.code(), ErrorCode::busy);
  world.run_for(ms(200));
  EXPECT_EQ(other.code(), ErrorCode::ok);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(asked[i].code(), ErrorCode::ok);
}

// [FH-4]
TEST_F(FlightsTest, too_many_flights_are_busy_over_all_shards) {
  start({.flights_max = 5});
  for (unsigned char i = 0; i < 9; ++i) ask(sample_address(i), i % shards);
  world.run_for(ms(10));
  EXPECT_EQ(flights->flying(), 5u);
  const auto busy = std::ranges::count_if(asked, [](const Asked& a) { return a.code() == ErrorCode::busy; });
  EXPECT_EQ(busy, 4);
  world.run_for(ms(200));
  EXPECT_EQ(ask(sample_address(8), 0).code(), ErrorCode::internal);
  world.run_for(ms(200));
  EXPECT_EQ(asked.back().code(), ErrorCode::ok);
}

TEST_F(FlightsTest, without_a_place_it_is_busy_at_once) {
  start({.places = 2});
  ask(one, 0), ask(one, 1);
  world.run_for(ms(10));
  Asked& third = ask(one, 2);
  world.run_for(ms(10));
  EXPECT_EQ(third.code(), ErrorCode::busy);
}

// [FH-5]
TEST_F(FlightsTest, a_drain_ends_all_with_its_reason) {
  start();
  for (unsigned char i = 0; i < 9; ++i) ask(sample_address(i), i % shards);
  world.run_for(ms(20));
  stop();
  world.run_for(ms(10));
  EXPECT_EQ(ended, 9);
  for (const Asked& each : asked)
    EXPECT_EQ(each.answer->error(), Error(ErrorCode::cancelled, "", Side::self, StopReason::draining));
  Asked& later = ask(one, 1);
  world.run_for(ms(10));
  EXPECT_EQ(later.code(), ErrorCode::draining);
}

TEST_F(FlightsTest, one_that_breaks_answers_those_who_wait_and_holds_up_nobody) {
  start();
  throws = true;
  Asked &first = ask(one, 0), &second = ask(one, 1);
  world.run_for(ms(150));
  EXPECT_EQ(first.code(), ErrorCode::internal);
  EXPECT_EQ(second.code(), ErrorCode::internal);
  ASSERT_TRUE(first.answer && second.answer);
  throws = false;
  Asked& later = ask(one, 0);
  world.run_for(ms(150));
  EXPECT_EQ(later.code(), ErrorCode::ok);
  // The dispatcher tells of it at its end.
  const unsigned home = homes.at(one);
  {
    const ShardScope here(node.shard(home));
    dispatchers[home]->cancel(StopReason::draining);
  }
  world.run_until([&] { return dispatchers[home]->empty(); });
  const auto joined = [](Scope* scope, Call call, bool* thrown) -> Task<> {
    try {
      (void)co_await scope->join(call);
    } catch (const std::bad_alloc&) {
      *thrown = true;
    }
  };
  bool thrown = false;
  node.scope(home).spawn("join", joined(dispatchers[home].get(), node.scope(home).call(), &thrown));
  world.run_for(ms(10));
  EXPECT_TRUE(thrown);
}

}  // namespace
}  // namespace cairn::index
