#include "serve/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::HasSubstr;

bool run_to_end(SimulatedNode& sample, Duration within = Duration::seconds(10)) {
  return sample.world.run_until([&] { return sample.results.size() == sample.host.shards(); }, within);
}

TEST(Node, a_new_configuration_changes_limits_while_it_runs) {
  SimulatedNode sample({{"server.max_rps", "1"}, {"limits.max_body_bytes", "10B"}});
  Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(get("/now/x")).status, 200);
  EXPECT_EQ(guest.ask(get("/now/x")).status, 429);
  sample.apply({{"server.max_rps", "100"}, {"limits.max_body_bytes", "100B"}, {"timeouts.request", "1s"}});
  EXPECT_EQ(sample.service.state.applied, 1);
  guest.run_for(Duration::millis(100));  // what was taken under the old rate stays paid for
  EXPECT_EQ(guest.ask(get("/now/x")).status, 200);
  EXPECT_EQ(guest.ask(post("/echo", std::string(50, 'x'))).status, 200);
  const Instant before = sample.world.now();
  EXPECT_EQ(guest.ask(get("/job/60000")).status, 504);
  EXPECT_LT((sample.world.now() - before), Duration::millis(1100));
}

TEST(Node, a_new_configuration_changes_connection_caps_and_timeouts) {
  SimulatedNode sample;
  Guest inside = sample.connect();
  EXPECT_EQ(inside.ask(get("/now/x")).status, 200);
  sample.apply({{"server.max_conns", "1"}, {"timeouts.read", "200ms"}, {"timeouts.idle", "1s"}});
  Guest beyond = sample.connect();
  EXPECT_EQ(beyond.ask(get("/now/x")).status, 429);
  inside.send("GET /");
  EXPECT_EQ(inside.answer(false, Duration::millis(300)).status, 408);
}

TEST(Node, a_request_keeps_the_deadline_it_began_with) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  guest.send(get("/job/3000"));
  ASSERT_TRUE(guest.until([&] { return sample.service.state.started == 1; }));
  sample.apply({{"timeouts.request", "10ms"}});
  EXPECT_EQ(guest.answer().status, 200);
}

TEST(Node, an_idle_node_drains_at_once) {
  SimulatedNode sample({}, {.shards = 2, .workers = 2, .seed = 3});
  Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(get("/now/x")).status, 200);
  const Instant before = sample.world.now();
  sample.drain(Duration::seconds(3));
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_LT(sample.world.now() - before, Duration::millis(100));
  for (const DrainResult& result : sample.results) EXPECT_TRUE(result.drained());
  EXPECT_TRUE(guest.until_ended(Duration::millis(100)));
  EXPECT_FALSE(sample.connect().connected());
}

TEST(Node, draining_finishes_what_is_queued_and_running) {
  SimulatedNode sample;
  Guest running = sample.connect();
  Guest queued = sample.connect();
  running.send(get("/job/1000"));
  ASSERT_TRUE(running.until([&] { return sample.service.state.started == 1; }));
  queued.send(get("/job/1000"));
  queued.run_for(Duration::millis(10));
  sample.drain(Duration::seconds(3));
  for (Guest* guest : {&running, &queued}) {
    const Answer answer = guest->answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.field("Connection"), "close");
  }
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_TRUE(sample.results[0].drained());
  EXPECT_EQ(sample.service.state.ended, 2);
}

TEST(Node, draining_turns_readiness_off_at_once_and_health_stays) {
  SimulatedNode sample;
  Guest running = sample.connect();
  Guest watcher = sample.connect();
  running.send(get("/job/1000"));
  ASSERT_TRUE(running.until([&] { return sample.service.state.started == 1; }));
  watcher.send("GET /readyz HTTP/1.1\r\n");  // half of it, so that the connection is not idle
  watcher.run_for(Duration::millis(10));
  sample.drain(Duration::seconds(3));
  const Answer ready = watcher.ask("Host: h\r\n\r\n");
  EXPECT_EQ(ready.status, 503);
  EXPECT_THAT(ready.body, HasSubstr(R"("missing":["draining"])"));
  EXPECT_EQ(running.answer().status, 200);
}

TEST(Node, what_does_not_end_in_time_is_aborted_and_counted) {
  SimulatedNode sample({{"timeouts.request", "60s"}});
  Guest guest = sample.connect();
  guest.send(get("/job/50000"));
  ASSERT_TRUE(guest.until([&] { return sample.service.state.started == 1; }));
  const Instant before = sample.world.now();
  sample.drain(Duration::seconds(3));
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_GE(sample.world.now() - before, Duration::seconds(3));
  EXPECT_LT(sample.world.now() - before, Duration::millis(3100));
  EXPECT_EQ(sample.results[0].aborted, 1u);
  EXPECT_TRUE(sample.results[0].still_alive.empty());
  EXPECT_EQ(sample.service.state.stops.size(), 1u);
  EXPECT_EQ(sample.metric(R"(tasks_aborted_total{kind="connection"})"), 1);
  const std::string logged = sample.logged();
  EXPECT_NE(logged.find("a request was cut off"), std::string::npos) << logged;
  EXPECT_NE(logged.find(R"("waited_for":"sleep")"), std::string::npos) << logged;
}

TEST(Node, the_second_signal_aborts_at_once) {
  SimulatedNode sample({{"timeouts.request", "60s"}});
  Guest guest = sample.connect();
  guest.send(get("/job/50000"));
  ASSERT_TRUE(guest.until([&] { return sample.service.state.started == 1; }));
  sample.drain(Duration::seconds(3));
  guest.run_for(Duration::millis(100));
  EXPECT_TRUE(sample.results.empty());
  const Instant before = sample.world.now();
  sample.abort();
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_LT(sample.world.now() - before, Duration::millis(100));
  EXPECT_EQ(sample.results[0].aborted, 1u);
}

TEST(Node, a_client_that_never_sent_anything_does_not_hold_up_the_end) {
  SimulatedNode sample;
  Guest silent = sample.connect();
  silent.run_for(Duration::millis(10));
  EXPECT_EQ(sample.node.connections(0), 1u);
  sample.drain(Duration::seconds(3));
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_TRUE(sample.results[0].drained()) << "nothing was asked, so nothing was aborted";
}

TEST(Node, draining_serves_what_was_queued_on_the_listener) {
  SimulatedNode sample;
  sample.world.pause(sample.host);
  Guest guest = sample.connect();
  guest.send(get("/job/100"));
  sample.drain(Duration::seconds(3));
  sample.world.resume(sample.host);
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("Connection"), "close");
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_TRUE(sample.results[0].drained());
}

TEST(Node, draining_waits_for_a_body_that_is_coming_in) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  guest.send("POST /staged HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345");
  ASSERT_TRUE(guest.until([&] { return sample.service.state.staging == 1; }));
  sample.drain(Duration::seconds(3));
  guest.run_for(Duration::millis(100));
  guest.send("67890");
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.body, "1234567890");
  EXPECT_EQ(answer.field("Connection"), "close");
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_TRUE(sample.results[0].drained());
}

TEST(Node, a_body_that_does_not_come_is_cut_off_at_the_drain_deadline) {
  SimulatedNode sample({{"timeouts.request", "60s"}, {"timeouts.read", "60s"}});
  Guest guest = sample.connect();
  guest.send("POST /staged HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345");
  ASSERT_TRUE(guest.until([&] { return sample.service.state.staging == 1; }));
  sample.drain(Duration::seconds(3));
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_EQ(sample.results[0].aborted, 1u);
  EXPECT_TRUE(sample.results[0].still_alive.empty());
  EXPECT_EQ(sample.service.state.staged, 0);
}

TEST(Node, a_failing_handler_does_not_keep_a_node_from_draining) {
  SimulatedNode sample;
  (void)sample.connect().ask(get("/throw"));
  (void)sample.connect().ask(get("/throw-now"));
  sample.drain(Duration::seconds(3));
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_TRUE(sample.results[0].drained());
}

TEST(Node, a_health_listener_serves_health_only) {
  SimulatedNode sample({}, {.shards = 1, .workers = 1, .seed = 1, .health_port = 81});
  Guest guest(sample.world, sample.away, {"host", 81, {}}),
      fresh(sample.world, sample.away, {"host", 81, {}});
  EXPECT_EQ(guest.ask(get("/metrics")).status, 200);
  EXPECT_EQ(guest.ask(get("/healthz")).status, 200);
  // What it does not serve is not there, whether the connection has just come or has asked before.
  for (Guest* each : {&guest, &fresh}) {
    const Answer answer = each->ask(get("/now/x"));
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.field("Connection"), "close");
  }
  Guest lost(sample.world, sample.away, {"host", 81, {}});
  EXPECT_EQ(lost.ask(get("/nothing")).status, 404);
  EXPECT_EQ(sample.connect().ask(get("/now/x")).status, 200);
}

// --- the end, as seen from outside

// A node of two shards with work that lasts, and whoever looks at it.
struct Watched {
  explicit Watched(std::uint64_t job_ms) {
    for (Guest* each : {&open, &open_too}) EXPECT_EQ(each->ask(get("/now/x")).status, 200);
    work.send(get(fmt::format("/job/{}", job_ms)));
    EXPECT_TRUE(work.until([&] { return sample.service.state.started == 1; }));
    sample.drain(Duration::seconds(3));
    work.run_for(Duration::millis(300));  // more than a connection that asked nothing may stay idle
  }
  static void expect_health(Guest& guest) {
    const Answer ready = guest.ask(get("/readyz"));
    EXPECT_EQ(ready.status, 503);
    EXPECT_THAT(ready.body, HasSubstr(R"("missing":["draining"])"));
    const Answer alive = guest.ask(get("/healthz"));
    EXPECT_EQ(alive.status, 200);
    EXPECT_NE(alive.field("Connection"), "close");
    EXPECT_EQ(guest.ask(get("/metrics")).status, 200);
  }

  SimulatedNode sample{{{"timeouts.request", "50s"}},
                       {.shards = 2, .workers = 2, .seed = 3, .health_port = 81}};
  Guest open = sample.connect(), open_too = sample.connect(), silent = sample.connect();
  Guest work = sample.connect();
};

TEST(Node, while_draining_health_is_told_on_open_connections_and_at_its_own_door) {
  Watched watched(2000);
  SimulatedNode& sample = watched.sample;
  for (Guest* each : {&watched.open, &watched.open_too, &watched.silent}) Watched::expect_health(*each);
  for (int i = 0; i < 4; ++i) {  // on either shard
    Guest fresh(sample.world, sample.away, {"host", 81, {}});
    ASSERT_TRUE(fresh.connected());
    Watched::expect_health(fresh);
  }
  EXPECT_FALSE(sample.connect().connected());
  EXPECT_EQ(watched.work.answer().status, 200);
}

TEST(Node, who_only_attends_does_not_hold_the_drain_up_and_is_closed_behind_it) {
  Watched watched(400);
  Guest fresh(watched.sample.world, watched.sample.away, {"host", 81, {}});
  Watched::expect_health(fresh);
  const Instant before = watched.sample.world.now();
  EXPECT_EQ(watched.work.answer().status, 200);
  ASSERT_TRUE(watched.sample.world.run_until([&] { return watched.sample.outcome.has_value(); }));
  EXPECT_LT(watched.sample.world.now() - before, Duration::millis(300));
  EXPECT_EQ(watched.sample.outcome->aborted, 0u);
  for (Guest* each : {&watched.open, &watched.silent, &fresh})
    EXPECT_TRUE(each->until([&] { return each->ended() || each->broken(); }, Duration::seconds(1)));
}

TEST(Node, work_on_a_connection_that_was_idle_is_told_that_it_drains) {
  Watched watched(1000);
  const Answer late = watched.open.ask(get("/now/x"));
  EXPECT_EQ(late.status, 503);
  EXPECT_THAT(late.body, HasSubstr(R"("code":"draining")"));
  EXPECT_EQ(late.field("Connection"), "close");
  EXPECT_EQ(watched.sample.metric(R"(rejected_total{reason="draining"})"), 1);
  EXPECT_EQ(watched.work.answer().status, 200);
}

TEST(Node, the_last_scrape_shows_what_was_aborted) {
  Watched watched(40000);
  std::string last;
  for (;;) {
    watched.open.send(get("/metrics"));
    if (!watched.open.until(
            [&] {
              return watched.open.ended() || watched.open.broken() ||
                     watched.open.got().find("log_dropped_total") != std::string::npos;
            },
            Duration::seconds(20)) ||
        watched.open.got().empty())
      break;
    last = watched.open.answer().body;
    watched.open.run_for(Duration::millis(10));
  }
  ASSERT_TRUE(watched.sample.world.run_until([&] { return watched.sample.outcome.has_value(); }));
  EXPECT_EQ(watched.sample.outcome->aborted, 1u);
  EXPECT_THAT(last, HasSubstr("tasks_aborted_total{kind=\"connection\"} 1\n"));
}

TEST(Node, a_moved_listener_keeps_the_connections_it_had) {
  SimulatedNode sample;
  Guest old = sample.connect();
  EXPECT_EQ(old.ask(get("/now/x")).status, 200);
  {
    ShardScope here(sample.host.shard());
    ASSERT_TRUE(sample.node.rebind(0, {"host", 81, {}}).has_value());
  }
  old.run_for(Duration::millis(10));
  EXPECT_FALSE(sample.connect().connected());
  EXPECT_EQ(old.ask(get("/now/y")).status, 200);
  Guest fresh(sample.world, sample.away, {"host", 81, {}});
  EXPECT_EQ(fresh.ask(get("/now/z")).status, 200);
  sample.drain(Duration::seconds(3));
  ASSERT_TRUE(run_to_end(sample));
  EXPECT_TRUE(sample.results[0].drained());
}

// Whatever the network and the clients do, the counts come back to zero and the node drains.
TEST(Node, nothing_is_left_behind_by_any_disorder) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SimulatedNode sample(
        {{"timeouts.request", "1s"}, {"timeouts.write", "1s"}, {"timeouts.read", "1s"}, {"queues.work", "4"}},
        {.shards = 1 + static_cast<unsigned>(seed % 3), .workers = 2, .seed = seed});
    auto& faults = sample.world.network().faults;
    faults.split_delivery = faults.split_write = 200'000;
    faults.reset = faults.vanish = 20'000;
    faults.slow_reader = 200'000;
    std::vector<std::unique_ptr<Guest>> guests;
    for (int i = 0; i < 20; ++i) {
      auto guest =
          std::make_unique<Guest>(sample.world, sample.away, Endpoint{"host", SimulatedNode::port, {}});
      if (!guest->connected()) continue;
      guest->send(get("/now/x") + post("/echo", std::string(3000, 'e')) + get("/job/50") + get("/throw"));
      guests.push_back(std::move(guest));
    }
    for (auto& guest : guests)
      guest->until([&] { return guest->ended() || guest->broken(); }, Duration::millis(20));
    guests.clear();
    sample.drain(Duration::seconds(3));
    ASSERT_TRUE(run_to_end(sample)) << "seed " << seed;
    for (const DrainResult& result : sample.results) EXPECT_TRUE(result.still_alive.empty());
    for (const RouteSpec& spec : SampleShard::routes())
      EXPECT_EQ(sample.metric(fmt::format("inflight_requests{{route=\"{}\"}}", spec.pattern)), 0) << seed;
    EXPECT_EQ(sample.metric(R"(queue_depth{queue="work"})"), 0) << seed;
  }
}

}  // namespace
}  // namespace cairn::serve
