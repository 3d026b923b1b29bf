#include "serve/lifecycle.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/local_call.h"
#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

bool run_to_end(SimulatedNode& sample, Duration within = Duration::seconds(60)) {
  return sample.world.run_until([&] { return sample.outcome.has_value(); }, within);
}

SampleState starting_in(Duration span) {
  SampleState state;
  state.start_takes = span;
  return state;
}

TEST(Lifecycle, shard_0_starts_first_and_stops_last) {
  SimulatedNode sample({}, {.shards = 3, .workers = 1, .seed = 4, .state = starting_in(Duration::millis(5))});
  std::vector<std::string>& life = sample.service.state.life;
  ASSERT_EQ(life.size(), 6u);
  EXPECT_EQ(life[0], "start 0");
  EXPECT_EQ(life[1], "started 0");
  life.clear();
  sample.service.state.stop_takes = Duration::millis(5);
  sample.drain(Duration::seconds(3));
  ASSERT_TRUE(run_to_end(sample));
  ASSERT_EQ(life.size(), 9u);
  // Tasks of a shard end before it stops; those of shard 0, which may serve the others, last of all.
  const auto place = [&](const char* what) {
    return std::find(life.begin(), life.end(), what) - life.begin();
  };
  EXPECT_LT(place("swept 1"), place("stop 1"));
  EXPECT_LT(place("swept 2"), place("stop 2"));
  EXPECT_EQ(life[6], "swept 0");
  EXPECT_EQ(life[7], "stop 0");
  EXPECT_EQ(life[8], "stopped 0");
  EXPECT_EQ(sample.outcome->aborted, 0u);
}

TEST(Lifecycle, until_every_shard_has_started_requests_are_not_ready_and_health_answers) {
  SimulatedNode sample(
      {}, {.shards = 2, .workers = 1, .seed = 2, .wait = false, .state = starting_in(Duration::seconds(10))});
  Guest guest = sample.connect();
  EXPECT_TRUE(guest.connected());
  Answer answer = guest.ask(get("/now/x"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr(R"("code":"not_ready")"));
  EXPECT_EQ(answer.field("Retry-After"), "1");
  EXPECT_EQ(guest.ask(get("/healthz")).status, 200);
  answer = guest.ask(get("/readyz"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("listener"));
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="not_ready"})"), 1);
  guest.run_for(Duration::seconds(15));
  EXPECT_EQ(guest.ask(get("/now/x")).status, 503) << "the other shard is still starting";
  guest.run_for(Duration::seconds(10));
  EXPECT_EQ(guest.ask(get("/now/x")).status, 200);
  EXPECT_EQ(guest.ask(get("/readyz")).status, 200);
}

TEST(Lifecycle, a_service_that_cannot_start_ends_and_stops_only_where_it_had_started) {
  SampleState state;
  state.start_fails = Error(ErrorCode::io_failed, "the store is gone");
  state.failing_shard = 1;
  SimulatedNode sample({}, {.shards = 2, .workers = 1, .seed = 1, .wait = false, .state = state});
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_FALSE(sample.serving);
  EXPECT_EQ(sample.outcome->failed, &sample.node);
  EXPECT_STREQ(sample.outcome->failure.context, "the store is gone");
  EXPECT_THAT(sample.service.state.life,
              ElementsAre("start 0", "started 0", "start 1", "swept 0", "stop 0", "stopped 0"));
}

TEST(Lifecycle, a_signal_during_the_start_ends_it_without_a_failure) {
  SimulatedNode sample(
      {},
      {.shards = 2, .workers = 1, .seed = 1, .wait = false, .state = starting_in(Duration::seconds(1000))});
  sample.world.run_until(sample.world.now() + Duration::seconds(1));
  const Instant before = sample.world.now();
  sample.drain(Duration::seconds(3));
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_LT(sample.world.now() - before, Duration::millis(300));
  EXPECT_EQ(sample.outcome->failed, nullptr);
  EXPECT_EQ(sample.outcome->aborted, 0u);
  EXPECT_THAT(sample.service.state.life, ElementsAre("start 0"));
}

TEST(Lifecycle, a_stop_that_does_not_end_is_cut_off_within_the_grace_of_the_drain) {
  SimulatedNode sample;
  sample.service.state.stop_takes = Duration::seconds(1000);
  const Instant before = sample.world.now();
  sample.drain(Duration::seconds(1));
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_GE(sample.world.now() - before, Duration::seconds(1));
  EXPECT_LT(sample.world.now() - before, Duration::seconds(1) + Drain::grace);
  EXPECT_EQ(sample.service.state.life.back(), "stop cut off 0");
  EXPECT_TRUE(sample.outcome->still_alive.empty());
}

TEST(Lifecycle, the_second_signal_cuts_the_stop_off_at_once) {
  SimulatedNode sample;
  sample.service.state.stop_takes = Duration::seconds(1000);
  sample.drain(Duration::seconds(3));
  sample.world.run_until([&] { return sample.service.state.life.back() == "stop 0"; });
  const Instant before = sample.world.now();
  sample.abort();
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_LT(sample.world.now() - before, Duration::millis(100));
}

// --- several services in one process

// Two services on the same shards, the second of which depends on the first.
class Pair {
 public:
  explicit Pair(unsigned shards, SampleState below_state = {}, SampleState above_state = {})
      : host(world.add_node("host", shards)),
        away(world.add_node("away")),
        log({.slots = shards}, [this] { return host.shard().wall(); }) {
    below.state = std::move(below_state);
    above.state = std::move(above_state);
    for (unsigned i = 0; i < shards; ++i) machines_.push_back(host.machine(i));
    add(below, 80);
    add(above, 81);
    lifecycle = std::make_unique<Lifecycle>(std::vector{nodes[0].get(), nodes[1].get()},
                                            LifecycleEvents{.serving = [this] { serving = true; },
                                                            .drained =
                                                                [this](unsigned, const auto& of) {
                                                                  for (const DrainResult& each : of)
                                                                    aborted.push_back(each.aborted);
                                                                }});
    host.scope().spawn("life", live(host.scope().call()));
  }
  ~Pair() {
    end(Duration::millis(1));
    world.run_until([this] { return outcome.has_value(); });
    {
      ShardScope here(host.shard());
      lifecycle.reset();
      nodes.clear();
    }
    world.stop();
  }
  void end(Duration within) {
    ShardScope here(host.shard());
    lifecycle->end(within);
  }
  Guest connect(std::uint16_t port) { return Guest(world, away, {"host", port, {}}); }

  io::sim::World world{3};
  io::sim::Node& host;
  io::sim::Node& away;
  observe::Log log;
  config::Schema schema;
  config::ServerKeys keys = config::declare_server_keys(schema, {.alone = false});
  SampleService below, above;
  std::vector<std::unique_ptr<Node>> nodes;
  std::unique_ptr<Lifecycle> lifecycle;
  bool serving = false;
  std::vector<std::size_t> aborted;  // by the drain, of each service
  std::optional<LifecycleOutcome> outcome;

  // The status that a call from inside the process gets, by a task of shard 0.
  int call_below(std::string target) {
    int status = 0;
    {
      ShardScope here(host.shard());
      host.scope().spawn("caller", ask_below(host.scope().call(), std::move(target), &status));
    }
    CHECK(world.run_until([&] { return status != 0; }));
    return status;
  }

 private:
  Task<> ask_below(Call call, std::string target, int* status) {
    http::LocalCall local(machines_[0], nodes[0]->answerer(0));
    local.start(http::Method::get, target, {});
    *status = co_await local.ask(call) ? local.status() : -1;
  }
  void add(SampleService& service, std::uint16_t port) {
    auto snapshot = config::load(schema, {});
    CHECK(snapshot.has_value());
    ShardScope here(host.shard());
    nodes.push_back(std::make_unique<Node>(service, *snapshot, keys, log, BuildInfo{"1", "2", "3"},
                                           host.shards(), 1, Access{.open = true}));
    service.state.guard = nodes.back()->settings().decode;
    for (unsigned i = 0; i < host.shards(); ++i) {
      nodes.back()->attach(machines_[i]);
      CHECK(nodes.back()->listen(i, {"host", port, {}}).has_value());
      nodes.back()->start(i);
    }
  }
  Task<> live(Call call) {
    auto ended = co_await lifecycle->run(call);
    CHECK(ended.has_value());
    outcome = std::move(*ended);
  }
  std::deque<io::Machine> machines_;
};

TEST(Lifecycle, a_service_starts_after_those_it_depends_on) {
  Pair pair(2, starting_in(Duration::seconds(1)), starting_in(Duration::seconds(1)));
  ASSERT_TRUE(pair.world.run_until([&] { return pair.below.state.life.size() == 4; }));
  EXPECT_TRUE(pair.above.state.life.empty());
  EXPECT_EQ(pair.connect(81).ask(get("/now/x")).status, 503);
  ASSERT_TRUE(pair.world.run_until([&] { return pair.serving; }));
  EXPECT_EQ(pair.connect(80).ask(get("/now/x")).status, 200);
  EXPECT_EQ(pair.connect(81).ask(get("/now/x")).status, 200);
}

TEST(Lifecycle, all_doors_close_at_once_and_each_service_stops_after_those_that_call_it) {
  SampleState slow;
  slow.stop_takes = Duration::millis(500);
  Pair pair(2, {}, slow);
  ASSERT_TRUE(pair.world.run_until([&] { return pair.serving; }));
  Guest above = pair.connect(81);
  Guest below = pair.connect(80);
  ASSERT_EQ(below.ask(get("/now/x")).status, 200);
  above.send(get("/job/1000"));
  ASSERT_TRUE(above.until([&] { return pair.above.state.started == 1; }));
  pair.end(Duration::seconds(3));
  above.run_for(Duration::millis(100));
  EXPECT_EQ(below.ask(get("/readyz")).status, 503);
  EXPECT_EQ(below.ask(get("/job/1")).status, 503) << "its doors are closed";
  EXPECT_EQ(pair.call_below("/job/1"), 200) << "and yet it is there for the one that calls it";
  EXPECT_EQ(above.answer().status, 200);
  ASSERT_TRUE(pair.world.run_until([&] { return pair.above.state.life.back() == "stop 0"; }));
  EXPECT_EQ(pair.call_below("/job/1"), 200) << "its own stop may still need it";
  EXPECT_THAT(pair.below.state.life, Each(StartsWith("start")));
  ASSERT_TRUE(pair.world.run_until([&] { return pair.outcome.has_value(); }));
  EXPECT_EQ(pair.below.state.life.back(), "stopped 0");
  EXPECT_EQ(pair.outcome->aborted, 0u);
}

TEST(Lifecycle, all_services_end_under_one_deadline) {
  Pair pair(1);
  ASSERT_TRUE(pair.world.run_until([&] { return pair.serving; }));
  Guest above = pair.connect(81);
  Guest below = pair.connect(80);
  above.send(get("/job/4000"));
  below.send(get("/job/4000"));
  ASSERT_TRUE(below.until([&] { return pair.above.state.started + pair.below.state.started == 2; }));
  const Instant before = pair.world.now();
  pair.end(Duration::seconds(1));
  ASSERT_TRUE(pair.world.run_until([&] { return pair.outcome.has_value(); }));
  EXPECT_LT(pair.world.now() - before, Duration::millis(1200));
  EXPECT_GE(pair.outcome->aborted, 2u);
}

TEST(Lifecycle, what_was_aborted_is_told_of_the_service_that_it_was_of) {
  Pair pair(1);
  ASSERT_TRUE(pair.world.run_until([&] { return pair.serving; }));
  Guest below = pair.connect(80);
  below.send(get("/job/4000"));
  ASSERT_TRUE(below.until([&] { return pair.below.state.started == 1; }));
  pair.end(Duration::millis(100));
  ASSERT_TRUE(pair.world.run_until([&] { return pair.outcome.has_value(); }));
  EXPECT_THAT(pair.aborted, ElementsAre(1, 0)) << "the other one has drained first";
}

// It has come in and waits for its turn when the end begins: it is answered as if there was none.
TEST(Lifecycle, a_call_that_waits_for_its_turn_gets_it_while_the_callee_drains) {
  Pair pair(1);
  ASSERT_TRUE(pair.world.run_until([&] { return pair.serving; }));
  Guest below = pair.connect(80);
  below.send(get("/job/500"));
  ASSERT_TRUE(below.until([&] { return pair.below.state.started == 1; }));
  pair.end(Duration::seconds(3));
  EXPECT_EQ(pair.call_below("/job/1"), 200) << "the one worker was busy";
  EXPECT_EQ(pair.below.state.ended, 2);
  EXPECT_EQ(below.answer().status, 200);
}

TEST(Lifecycle, what_was_started_is_stopped_when_a_later_service_cannot_start) {
  SampleState failing;
  failing.start_fails = Error(ErrorCode::io_failed, "no");
  Pair pair(2, {}, failing);
  ASSERT_TRUE(pair.world.run_until([&] { return pair.outcome.has_value(); }));
  EXPECT_EQ(pair.outcome->failed, pair.nodes[1].get());
  EXPECT_EQ(pair.below.state.life.back(), "stopped 0");
  EXPECT_THAT(pair.above.state.life, ElementsAre("start 0"));
}

}  // namespace
}  // namespace cairn::serve
