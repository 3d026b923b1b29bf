#include "io/sim/dht.h"

#include <gtest/gtest.h>

#include "io/dht_setting.h"

namespace cairn::io::sim {
namespace {

const DhtValue sample{1, "value"};

// One node of the program in a network of peers.
struct Net {
  explicit Net(SimDhtPlan plan = {}, std::uint64_t seed = 1, bool joins = true)
      : world(seed), network(SimDht::make(world.clockwork(), plan)) {
    DhtOptions options = Simulated::joining();
    if (!joins) options.bootstrap.clear();
    auto opened = place.run(network->open(place.call(), place.machine, options));
    CHECK(opened.has_value());
    node = *opened;
    port = node->make_port(place.machine);
  }
  struct Got {
    std::vector<DhtValue> values;
    std::optional<Result<DhtOutcome>> outcome;
    Instant first{};
    Instant end{};
  };
  static Task<> run_get(Call call, Dht* dht, DhtKey key, Got* got) {
    got->outcome = co_await dht->get(call, key, [got](const DhtValue& value) {
      if (got->values.empty()) got->first = current_shard()->now();
      got->values.push_back(value);
      return false;
    });
    got->end = current_shard()->now();
  }
  void begin_get(Call call, DhtKey key, Got* got) {
    ShardScope here(place.machine.shard);
    place.node.scope().spawn("get", run_get(call, port.get(), key, got));
  }
  Got get(DhtKey key, Duration patience = Duration::seconds(60)) {
    Got got;
    {
      ShardScope here(place.machine.shard);
      begin_get(place.call().within(patience), key, &got);
    }
    CHECK(world.run_until([&] { return got.outcome.has_value(); }));
    return got;
  }
  ErrorCode put(DhtKey key, DhtValue value, Duration patience = Duration::seconds(60)) {
    ShardScope here(place.machine.shard);
    const Call call = place.call().within(patience);
    return code_of(place.run(port->put(call, key, std::move(value))));
  }
  DhtStatus status() {
    const auto told = place.run(port->status(place.call()));
    CHECK(told.has_value());
    return *told;
  }

  World world;
  std::shared_ptr<SimDht> network;
  WorldPlace place{world, world.add_node("a")};
  std::shared_ptr<DhtNode> node;
  std::unique_ptr<Dht> port;
};

TEST(SimDht, the_same_seeds_are_the_same_run) {
  const auto run = [](std::uint64_t seed) {
    Net net({.peers = 100, .dead = 100'000, .flapping = 100'000, .liars = 100'000, .seed = seed}, seed);
    net.network->faults.loss = 50'000;
    (void)net.put(sample_key(1), sample);
    const auto got = net.get(sample_key(1));
    return std::tuple(net.world.hash(), net.network->messages(), got.values.size(), got.end.ns);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(SimDht, a_value_costs_round_trips_and_the_end_lags_behind_it) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Net net({.peers = 200, .seed = seed}, seed);
    net.network->plant(sample_key(1), sample);
    net.world.run_for(Duration::seconds(10));
    const std::uint64_t before = net.network->messages();
    const Instant begin = net.world.now();
    const auto got = net.get(sample_key(1));
    ASSERT_EQ(got.values, std::vector{sample});
    ASSERT_TRUE(*got.outcome && (*got.outcome)->complete);
    EXPECT_GE(got.first - begin, Duration::millis(20));
    EXPECT_LE(got.first - begin, Duration::millis(5 * 300));
    EXPECT_GE(got.end, got.first);
    EXPECT_GE(net.network->messages() - before, 8u);
    EXPECT_LE(net.network->messages() - before, 40u);
  }
}

TEST(SimDht, a_node_that_knows_nobody_is_not_ready_until_it_is_told) {
  Net net({}, 1, false);
  net.network->plant(sample_key(1), sample);
  EXPECT_FALSE(net.status().ready);
  EXPECT_EQ(code_of(*net.get(sample_key(1)).outcome), ErrorCode::not_ready);
  EXPECT_EQ(net.put(sample_key(1), sample), ErrorCode::not_ready);
  EXPECT_EQ(net.network->messages(), 0u);
  ASSERT_EQ(code_of(net.place.run(net.port->bootstrap(net.place.call(), {{"entry", 4222}}))), ErrorCode::ok);
  EXPECT_EQ(net.get(sample_key(1)).values, std::vector{sample});
  EXPECT_TRUE(net.status().ready);
  const auto peers = net.place.run(net.port->export_peers(net.place.call()));
  ASSERT_EQ(code_of(peers), ErrorCode::ok);
  EXPECT_EQ(peers->size(), net.status().good_nodes);
}

TEST(SimDht, DH3_a_network_that_is_dead_is_an_error_and_not_an_absence) {
  Net net;
  net.network->plant(sample_key(1), sample);
  ASSERT_EQ(net.get(sample_key(1)).values, std::vector{sample});
  net.network->set_all_dead(true);
  EXPECT_FALSE(net.status().ready);
  EXPECT_EQ(code_of(*net.get(sample_key(1)).outcome), ErrorCode::upstream);
  EXPECT_EQ(code_of(*net.get(sample_key(1)).outcome), ErrorCode::not_ready) << "it has given up on its peers";
  EXPECT_EQ(code_of(*net.get(sample_key(1), Duration::millis(1200)).outcome), ErrorCode::timeout);
  net.network->set_all_dead(false);
  net.world.run_for(Duration::seconds(30));
  EXPECT_EQ(net.get(sample_key(1)).values, std::vector{sample});
}

TEST(SimDht, dead_peers_and_lost_messages_cost_time_and_not_values) {
  Net net({.peers = 200, .dead = 200'000}, 3);
  net.network->faults.loss = 200'000;
  for (unsigned i = 0; i < 20; ++i) {
    ASSERT_EQ(net.put(sample_key(i), sample), ErrorCode::ok);
    const auto got = net.get(sample_key(i));
    EXPECT_EQ(got.values, std::vector{sample});
    EXPECT_EQ(code_of(*got.outcome), ErrorCode::ok);
  }
  EXPECT_GT(net.network->lost(), 100u);
}

TEST(SimDht, DH2_liars_cannot_hide_a_value_that_honest_peers_have_nor_give_what_is_not_allowed) {
  std::size_t given = 0;
  std::uint64_t dropped = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Net net({.peers = 100, .seed = seed}, seed);
    net.network->plant(sample_key(1), sample);
    net.network->plant(sample_key(2), {7, "of another key"});
    const auto nearest = net.network->nearest(sample_key(1), 8);
    for (std::size_t i = 0; i < 4; ++i) net.network->make_liar(nearest[2 * i]);
    const auto got = net.get(sample_key(1));
    EXPECT_TRUE(std::ranges::count(got.values, sample) > 0 || got.values.size() == dht_values_most);
    EXPECT_LE(got.values.size(), dht_values_most);
    for (const DhtValue& value : got.values) EXPECT_LE(value.bytes.size(), dht_value_max);
    given += got.values.size();
    dropped += net.status().dropped;
  }
  EXPECT_GT(given, 100u);
  EXPECT_GT(dropped, 100u);
}

TEST(SimDht, an_end_may_say_failed_or_never_come) {
  Net net;
  net.network->plant(sample_key(1), sample);
  net.network->faults.failed_end = 1'000'000;
  const auto failed = net.get(sample_key(1));
  EXPECT_EQ(failed.values, std::vector{sample});
  EXPECT_EQ(code_of(*failed.outcome), ErrorCode::upstream);
  net.network->faults.silent_end = 1'000'000;
  const auto silent = net.get(sample_key(1));
  EXPECT_EQ(silent.values, std::vector{sample});
  EXPECT_EQ(code_of(*silent.outcome), ErrorCode::timeout);
  net.network->faults.unacknowledged = 1'000'000;
  EXPECT_EQ(net.put(sample_key(2), sample), ErrorCode::timeout);
  EXPECT_EQ(net.get(sample_key(2)).values, std::vector{sample}) << "kept all the same";
  EXPECT_EQ(net.status().under_way, 3u) << "whose end was never told";
}

TEST(SimDht, values_may_be_repeated) {
  Net net;
  net.network->plant(sample_key(1), sample);
  net.network->faults.repeat = 1'000'000;
  EXPECT_GT(net.get(sample_key(1)).values.size(), 4u);
}

TEST(SimDht, DH1_what_comes_after_a_cancel_is_heard_by_nobody) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Net net({.peers = 100, .seed = seed}, seed);
    net.network->plant(sample_key(1), sample);
    net.world.run_for(Duration::seconds(10));
    Net::Got got;
    CancelSource stop(net.place.machine.shard, &net.place.call().cancel());
    net.begin_get(net.place.call().under(stop), sample_key(1), &got);
    net.world.run_for(Duration::millis(static_cast<std::int64_t>(seed * 10)));
    const std::size_t before = got.values.size();
    {
      ShardScope here(net.place.machine.shard);
      stop.cancel(StopReason::client_gone);
    }
    ASSERT_TRUE(net.world.run_until([&] { return got.outcome.has_value(); }));
    if (*got.outcome) continue;  // it had ended
    EXPECT_EQ(code_of(*got.outcome), ErrorCode::cancelled);
    EXPECT_EQ(got.values.size(), before);
    EXPECT_TRUE(net.world.run_to_rest());
    EXPECT_EQ(got.values.size(), before);
    EXPECT_EQ(net.status().under_way, 0u);
    EXPECT_EQ(net.network->searches(), 0u);
  }
}

TEST(SimDht, DH5_a_close_ends_what_is_under_way) {
  Net net;
  Net::Got got;
  net.begin_get(net.place.call(), sample_key(1), &got);
  net.world.run_for(Duration::millis(5));
  ASSERT_EQ(code_of(net.place.run(net.node->close(net.place.call(), net.place.machine))), ErrorCode::ok);
  ASSERT_TRUE(net.world.run_until([&] { return got.outcome.has_value(); }, Duration::millis(5)));
  EXPECT_EQ(code_of(*got.outcome), ErrorCode::closed);
  EXPECT_EQ(net.network->searches(), 0u);
}

TEST(SimDht, a_process_that_dies_while_it_asks_leaves_nothing_behind) {
  World world(5);
  auto network = SimDht::make(world.clockwork());
  struct Program {
    std::shared_ptr<DhtNode> node;
    std::unique_ptr<Dht> port;
  };
  Net::Got got;
  Node& node = world.add_node("a", 1, [&](Node& self) {
    Program& program = self.make<Program>();
    self.scope().spawn("start", [](Call call, Node* at, SimDht* dht, Program* made, Net::Got* out) -> Task<> {
      Machine machine = at->machine();
      auto opened = co_await dht->open(call, machine, Simulated::joining());
      CHECK(opened.has_value());
      made->node = *opened;
      made->port = made->node->make_port(machine);
      co_await Net::run_get(call, made->port.get(), sample_key(1), out);
    }(self.scope().call(), &self, network.get(), &program, &got));
  });
  for (int life = 0; life < 20; ++life) {
    world.run_for(Duration::millis(life * 17));
    world.crash(node);
    EXPECT_EQ(network->searches(), 0u);
    world.restart(node);
  }
  world.stop();
}

TEST(SimDht, no_more_than_the_declared_number_is_under_way) {
  Net net;
  std::vector<Net::Got> got(dht_under_way_most + 1);
  for (Net::Got& one : got) net.begin_get(net.place.call(), sample_key(1), &one);
  ASSERT_TRUE(net.world.run_until(
      [&] { return std::ranges::all_of(got, [](const Net::Got& one) { return one.outcome.has_value(); }); }));
  EXPECT_EQ(std::ranges::count_if(
                got, [](const Net::Got& one) { return code_of(*one.outcome) == ErrorCode::busy; }),
            1);
}

TEST(SimDht, a_value_is_gone_after_its_life_and_with_the_peers_that_kept_it) {
  Net net;
  ASSERT_EQ(net.put(sample_key(1), sample), ErrorCode::ok);
  net.world.run_for(dht_value_life / 2);
  EXPECT_EQ(net.get(sample_key(1)).values, std::vector{sample});
  net.world.run_for(dht_value_life / 2);
  const auto got = net.get(sample_key(1));
  EXPECT_TRUE(got.values.empty());
  EXPECT_TRUE(*got.outcome && (*got.outcome)->complete);

  net.network->faults.life = Duration::seconds(60);
  ASSERT_EQ(net.put(sample_key(2), sample), ErrorCode::ok);
  net.world.run_for(Duration::seconds(70));
  EXPECT_TRUE(net.get(sample_key(2)).values.empty());
}

TEST(SimDht, every_rudeness_is_reached) {
  Probes all;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Net net({.peers = 60, .dead = 100'000, .flapping = 200'000, .liars = 100'000, .seed = seed}, seed,
            seed != 1);
    net.network->faults = {.loss = 50'000,
                           .failed_end = 100'000,
                           .silent_end = 50'000,
                           .unacknowledged = 100'000,
                           .repeat = 100'000,
                           .life = Duration::seconds(120)};
    for (unsigned i = 0; i < 10; ++i) {
      (void)net.put(sample_key(i), sample, Duration::seconds(5));
      (void)net.get(sample_key(i), Duration::millis(300));
      (void)net.get(sample_key(i), Duration::seconds(5));
    }
    net.network->set_all_dead(true);
    (void)net.get(sample_key(1));
    all.add(net.world.probes());
  }
  for (const std::string& name : all.missed())
    EXPECT_FALSE(name.starts_with("dht.")) << name << " was never reached";
}

}  // namespace
}  // namespace cairn::io::sim
