// Requests that stay open: long polls and streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::HasSubstr;

constexpr std::string_view stream_count = R"(http_requests_total{route="/events",method="GET",status="200"})";

// Connected, with the first event read.
Guest& open_stream(SimulatedNode& sample, std::deque<Guest>& guests) {
  Guest& guest = guests.emplace_back(sample.world, sample.away, Endpoint{"host", SimulatedNode::port, {}});
  guest.send(get("/events"));
  EXPECT_TRUE(guest.until([&] { return guest.got().ends_with("data: {}\n\n\r\n"); }));
  return guest;
}

TEST(Open, a_poll_that_has_its_answer_does_not_wait) {
  SimulatedNode sample;
  sample.set_version(3);
  EXPECT_EQ(sample.connect().ask(get("/poll/1000")).body, "3");
  EXPECT_EQ(sample.service.state.open, 0);
}

TEST(Open, a_poll_is_answered_when_something_happens) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  guest.send(get("/poll/60000"));
  guest.run_for(Duration::seconds(20));
  EXPECT_EQ(guest.got(), "");
  sample.set_version(1);
  const Answer answer = guest.answer(false, Duration::millis(50));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "1");
  EXPECT_EQ(guest.ask(get("/now/x")).body, "x") << "the connection goes on";
}

TEST(Open, a_poll_ends_with_its_own_time_and_not_with_that_of_requests) {
  SimulatedNode sample({{"timeouts.request", "1s"}});
  Guest guest = sample.connect();
  const Instant begun = sample.world.now();
  EXPECT_EQ(guest.ask(get("/poll/60000")).body, "0");
  EXPECT_GE(sample.world.now() - begun, open_wait_max);
  EXPECT_LT(sample.world.now() - begun, open_wait_max + Duration::millis(100));
  // Whoever waits for longer than anyone may.
  const Answer late = guest.ask(get("/poll/3600000"));
  EXPECT_EQ(late.status, 504);
  EXPECT_EQ(late.field("X-Half"), std::nullopt);
}

TEST(Open, a_client_may_shorten_the_wait) {
  SimulatedNode sample;
  const Instant begun = sample.world.now();
  EXPECT_EQ(sample.connect().ask(get("/poll/60000", "X-Deadline-Ms: 500\r\n")).status, 504);
  EXPECT_LT(sample.world.now() - begun, Duration::seconds(1));
}

TEST(Open, a_wait_that_throws_costs_its_request_only) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  const Answer answer = guest.ask(get("/poll/13"));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.field("X-Half"), std::nullopt);
  EXPECT_THAT(sample.logged(), HasSubstr("the wait's reason"));
  EXPECT_EQ(guest.ask(get("/now/x")).body, "x");
}

TEST(Open, is_admitted_like_any_other_request) {
  SimulatedNode rate({{"server.max_rps", "1"}});
  EXPECT_EQ(rate.connect().ask(get("/now/x")).status, 200);
  EXPECT_EQ(rate.connect().ask(get("/events")).status, 429);
  SimulatedNode full({{"server.max_inflight", "1"}});
  Guest worker = full.connect();
  worker.send(get("/job/1000"));
  ASSERT_TRUE(worker.until([&] { return full.service.state.started == 1; }));
  EXPECT_EQ(full.connect().ask(get("/poll/1")).status, 429);
  SimulatedNode guarded({{"auth.reads", "required"}});
  EXPECT_EQ(guarded.connect().ask(get("/poll/1")).status, 401);
  EXPECT_EQ(guarded.connect().ask(get("/poll/1", bearer())).status, 200);
}

TEST(Open, counts_as_a_connection_and_not_in_flight) {
  SimulatedNode sample({{"server.max_inflight", "1"}, {"queues.work", "1"}});
  std::deque<Guest> guests;
  for (int i = 0; i < 5; ++i) open_stream(sample, guests);
  Guest poll = sample.connect();
  poll.send(get("/poll/60000"));
  ASSERT_TRUE(poll.until([&] { return sample.service.state.open == 6; }));
  EXPECT_EQ(sample.metric(R"(inflight_requests{route="/events"})"), 0);
  EXPECT_EQ(sample.metric(R"(inflight_requests{route="/poll/{ms:Int}"})"), 0);
  Guest other = sample.connect();
  EXPECT_EQ(other.ask(get("/now/x")).status, 200);
  EXPECT_EQ(other.ask(get("/job/1")).status, 200) << "the only worker and the only place are free";
  EXPECT_EQ(sample.node.connections(0), 7u);
}

TEST(Open, a_stream_is_counted_with_its_head_and_its_end_is_no_failure) {
  SimulatedNode sample;
  std::deque<Guest> guests;
  Guest& guest = open_stream(sample, guests);
  EXPECT_EQ(sample.metric(stream_count), 1);
  guest.run_for(Duration::seconds(100));
  guest.close();
  ASSERT_TRUE(guest.until([&] { return sample.service.state.open == 0; }, Duration::seconds(1)));
  EXPECT_EQ(sample.service.state.stops.back(), StopReason::client_gone);
  EXPECT_EQ(sample.metric(stream_count), 1);
  EXPECT_EQ(sample.metric(R"(request_latency_seconds_count{route="/events",method="GET"})"), 1);
  EXPECT_LT(sample.metric(R"(request_latency_seconds_sum{route="/events",method="GET"})"), 1);
}

TEST(Open, head_of_a_stream_is_only_its_head) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  guest.send("HEAD /events HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(guest.answer(true).field("Content-Type"), "text/event-stream");
  EXPECT_EQ(guest.ask(get("/now/x")).body, "x");
  EXPECT_EQ(sample.service.state.open, 0);
}

TEST(Open, draining_ends_every_wait_and_every_stream_at_once_and_aborts_nothing) {
  SimulatedNode sample({}, {.shards = 2});
  std::deque<Guest> guests;
  for (int i = 0; i < 20; ++i) open_stream(sample, guests);
  Guest poll = sample.connect(), stubborn = sample.connect();
  poll.send(get("/poll/60000"));
  stubborn.send(get("/poll/99000"));
  ASSERT_TRUE(stubborn.until([&] { return sample.service.state.open == 22; }));
  const Instant begun = sample.world.now();
  sample.drain(Duration::seconds(3));
  for (Guest& guest : guests) EXPECT_TRUE(guest.answer().whole);
  const Answer answer = poll.answer();
  EXPECT_EQ(answer.body, "0") << "what there is";
  EXPECT_EQ(answer.field("Connection"), "close");
  const Answer stopped = stubborn.answer();
  EXPECT_EQ(stopped.status, 503);
  EXPECT_THAT(stopped.body, HasSubstr(R"("code":"draining")"));
  ASSERT_TRUE(sample.world.run_until([&] { return sample.outcome.has_value(); }));
  EXPECT_LT(sample.world.now() - begun, Duration::seconds(1));
  ASSERT_EQ(sample.results.size(), 2u);
  for (const DrainResult& result : sample.results) EXPECT_TRUE(result.drained());
}

TEST(Open, a_client_that_leaves_ends_its_wait) {
  SimulatedNode sample;
  Guest guest = sample.connect();
  guest.send(get("/poll/60000"));
  ASSERT_TRUE(guest.until([&] { return sample.service.state.open == 1; }));
  guest.close();
  ASSERT_TRUE(guest.until([&] { return sample.node.connections(0) == 0; }, Duration::seconds(1)));
  EXPECT_EQ(sample.service.state.stops, std::vector{StopReason::client_gone});
  EXPECT_EQ(sample.metric(R"(http_requests_total{route="/poll/{ms:Int}",method="GET",status="499"})"), 1);
}

TEST(Open, events_that_the_log_missed_are_counted_as_lag_and_as_dropped) {
  SimulatedNode sample;
  {
    ShardScope here(sample.host.shard());
    for (std::size_t i = 0; i < events_capacity + 5; ++i)
      ASSERT_TRUE(sample.service.state.bus->events.send({Event::Kind::config_updated, i}).has_value());
  }
  sample.connect().run_for(Duration::millis(10));
  EXPECT_EQ(sample.metric(R"(bus_lagged_total{topic="events",consumer="event-log"})"), 5);
  EXPECT_EQ(sample.metric(R"(queue_dropped_total{queue="events"})"), 5);
}

TEST(Open, the_bus_tells_the_log_of_a_registry_update) {
  SimulatedNode sample;
  sample.log.set_level(observe::Level::debug);
  {
    ShardScope here(sample.host.shard());
    Address b3;
    b3.bytes.fill(std::byte{0xab});
    ASSERT_TRUE(sample.service.state.bus->events.send({Event::Kind::registry_updated, 7, b3}).has_value());
  }
  sample.connect().run_for(Duration::millis(10));
  const std::string line = sample.logged();
  EXPECT_THAT(line, HasSubstr("registry updated"));
  EXPECT_THAT(line, HasSubstr(R"("version":7)"));
  EXPECT_THAT(line, HasSubstr("b3:abababab"));
}

}  // namespace
}  // namespace cairn::serve
