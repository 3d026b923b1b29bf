// At the caps: who gives way, who never does, and health.
#include "serve/give_way.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using io::sim::Guest;
using Guests = std::vector<std::unique_ptr<Guest>>;

std::unique_ptr<Guest> from(SimulatedNode& sample, io::sim::Node& node,
                            std::uint16_t port = SimulatedNode::port) {
  return std::make_unique<Guest>(sample.world, node, Endpoint{"host", port, {}});
}
std::string get(std::string_view path) { return "GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n\r\n"; }
std::size_t ended(Guests& guests) {
  std::size_t count = 0;
  for (auto& guest : guests) {
    guest->run_for(Duration{0});
    count += guest->ended() || guest->broken() ? 1 : 0;
  }
  return count;
}

class GiveWayTest : public testing::TestWithParam<unsigned> {
 protected:
  SimulatedNode::Shape shape() const {
    return {.shards = GetParam(), .workers = 2, .seed = 3, .health_port = 81};
  }
};

TEST_P(GiveWayTest, the_longest_idle_connection_of_the_address_with_the_most_gives_way) {
  SimulatedNode sample({{"server.max_conns", "6"}}, shape());
  io::sim::Node& many = sample.world.add_node("many");
  io::sim::Node& few = sample.world.add_node("few");
  auto oldest = from(sample, few);  // older than all, but of an address that has less
  oldest->run_for(Duration::millis(10));
  Guests guests;
  for (int i = 0; i < 5; ++i) {
    guests.push_back(from(sample, many));
    guests.back()->run_for(Duration::millis(10));
  }
  sample.world.run_until(sample.world.now() + Duration::seconds(2));
  // Asked again: it is no longer the one that has waited longest.
  EXPECT_EQ(guests[0]->ask(get("/now/x")).status, 200);
  auto late = from(sample, few);
  EXPECT_EQ(late->ask(get("/now/x")).status, 200);
  EXPECT_EQ(ended(guests), 1u);
  EXPECT_TRUE(guests[1]->ended() || guests[1]->broken());
  EXPECT_EQ(oldest->ask(get("/now/x")).status, 200);
}

TEST_P(GiveWayTest, who_is_busy_or_has_just_been_never_gives_way) {
  SimulatedNode sample({{"server.max_conns", "4"}, {"timeouts.request", "60s"}}, shape());
  Guests guests;
  for (int i = 0; i < 4; ++i) {
    guests.push_back(from(sample, sample.away));
    guests.back()->send(i % 2 == 0 ? get("/job/30000") : "GET /now/x HTTP/1.1\r\nHo");
  }
  guests[0]->run_for(Duration::seconds(2));
  auto late = from(sample, sample.away);
  EXPECT_EQ(late->ask(get("/now/x")).status, 429);
  EXPECT_EQ(ended(guests), 0u);
}

TEST_P(GiveWayTest, an_address_at_its_cap_makes_way_for_itself) {
  SimulatedNode sample({{"server.max_conns", "100"}, {"server.max_conns_per_ip", "3"}}, shape());
  io::sim::Node& other = sample.world.add_node("other");
  Guests guests, others;
  for (int i = 0; i < 3; ++i) others.push_back(from(sample, other));
  for (int i = 0; i < 3; ++i) guests.push_back(from(sample, sample.away));
  sample.world.run_until(sample.world.now() + Duration::seconds(2));
  auto late = from(sample, sample.away);
  EXPECT_EQ(late->ask(get("/now/x")).status, 200);
  EXPECT_EQ(ended(guests), 1u);
  EXPECT_EQ(ended(others), 0u);
}

TEST_P(GiveWayTest, silent_connections_do_not_keep_health_or_others_out) {
  SimulatedNode sample({{"server.max_conns", "64"}}, shape());
  Guests silent;
  for (int i = 0; i < 64 + 16 + 100; ++i) silent.push_back(from(sample, sample.away));
  // At once: nobody has waited for a second.
  EXPECT_EQ(sample.connect().ask(get("/healthz")).status, 200);
  auto beside = from(sample, sample.away, 81);
  EXPECT_EQ(beside->ask(get("/metrics")).status, 200);
  sample.world.run_until(sample.world.now() + Duration::millis(1200));
  EXPECT_EQ(ended(silent), 16u + 100) << "beyond the caps and unread after a second";
  EXPECT_EQ(sample.connect().ask(get("/readyz")).status, 200);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sample.connect().ask(get("/now/x")).status, 200) << i;
}

TEST_P(GiveWayTest, places_for_health_are_held_by_heads_that_name_it_and_are_sixteen_a_door) {
  SimulatedNode sample({{"server.max_conns", "1"}, {"timeouts.request", "60s"}}, shape());
  auto busy = from(sample, sample.away);
  busy->send(get("/job/50000"));
  busy->run_for(Duration::millis(50));
  Guests silent, asking;
  for (const std::uint16_t port : {SimulatedNode::port, std::uint16_t{81}}) {
    for (int i = 0; i < 20; ++i) silent.push_back(from(sample, sample.away, port));
    for (int i = 0; i < 16; ++i) {
      asking.push_back(from(sample, sample.away, port));
      EXPECT_EQ(asking.back()->ask(get("/healthz")).status, 200) << port << ' ' << i;
    }
    EXPECT_EQ(from(sample, sample.away, port)->ask(get("/healthz")).status, 429) << port;
  }
  EXPECT_EQ(ended(asking), 0u);
}

TEST_P(GiveWayTest, a_flood_of_unread_connections_is_bounded_and_lets_health_in) {
  SimulatedNode sample({{"server.max_conns", "1"}, {"timeouts.request", "60s"}}, shape());
  auto busy = from(sample, sample.away);
  busy->send(get("/job/50000"));
  busy->run_for(Duration::millis(50));
  Guests flood;
  for (int i = 0; i < 600; ++i) flood.push_back(from(sample, sample.away));
  std::size_t inside = 0;
  for (unsigned i = 0; i < GetParam(); ++i) inside += sample.node.connections(i);
  EXPECT_LE(inside, 1 + GetParam() * (128 + 64));
  EXPECT_EQ(sample.connect().ask(get("/healthz")).status, 200);
  EXPECT_EQ(sample.connect().ask(get("/now/x")).status, 429);
}

TEST_P(GiveWayTest, half_a_head_beyond_the_caps_is_closed_after_a_second) {
  SimulatedNode sample({{"server.max_conns", "1"}, {"timeouts.request", "60s"}}, shape());
  auto busy = from(sample, sample.away);
  busy->send(get("/job/50000"));
  busy->run_for(Duration::millis(50));
  auto half = from(sample, sample.away);
  half->send("GET /healthz HTTP/1.1\r\nHost");
  EXPECT_TRUE(half->until_ended(Duration::millis(1100)));
}

TEST_P(GiveWayTest, draining_in_the_middle_of_a_search_comes_to_its_end) {
  for (int i = 0; i < 10; ++i) {
    SimulatedNode sample({{"server.max_conns", "3"}}, shape());
    Guests guests;
    for (int k = 0; k < 3; ++k) guests.push_back(from(sample, sample.away));
    sample.world.run_until(sample.world.now() + Duration::seconds(2));
    auto late = from(sample, sample.away);
    late->send(get("/now/x"));
    int steps = 0;
    late->until([&] { return ++steps > i * 3; }, Duration::seconds(1));
    sample.drain(Duration::seconds(3));
    EXPECT_TRUE(sample.world.run_until([&] { return sample.outcome.has_value(); }, Duration::seconds(10)));
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, GiveWayTest, testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace cairn::serve
