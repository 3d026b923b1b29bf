// What only the real network can show; what it promises beside is in dht_test.cpp.
#include "io/open_dht.h"

#include <gtest/gtest.h>

#include <set>

#include "io/open_dht_setting.h"

namespace cairn::io {
namespace {

const DhtValue sample{1, "value"};

Task<> run_get(Call call, Dht* dht, DhtKey key, std::vector<DhtValue>* values,
               std::optional<Result<DhtOutcome>>* outcome) {
  *outcome = co_await dht->get(call, key, [values](const DhtValue& value) {
    values->push_back(value);
    return false;
  });
}
Task<> run_put(Call call, Dht* dht, DhtKey key, std::optional<Result<>>* outcome) {
  *outcome = co_await dht->put(call, key, sample);
}

TEST(OpenDht, five_nodes_find_what_one_of_them_has_put) {
  OpenNet net(5);
  ASSERT_EQ(code_of(net[1].put(sample_key(1), sample)), ErrorCode::ok);
  for (std::size_t i = 0; i < net.size(); ++i) {
    const auto got = net[i].get(sample_key(1));
    EXPECT_EQ(got.values, std::vector{sample}) << i;
    EXPECT_TRUE(got.outcome && got.outcome->complete) << i;
  }
}

TEST(OpenDht, a_node_that_is_alone_is_not_ready) {
  OpenPlace alone(options_of(DhtMode::private_network));
  EXPECT_FALSE(alone.status().ready);
  EXPECT_EQ(code_of(alone.get(sample_key(1)).outcome), ErrorCode::not_ready);
  EXPECT_EQ(code_of(alone.put(sample_key(1), sample)), ErrorCode::not_ready);
  EXPECT_EQ(alone.status().under_way, 0u);
}

TEST(OpenDht, a_node_learns_of_others_while_it_runs) {
  OpenNet net(2);
  ASSERT_EQ(code_of(net[1].put(sample_key(1), sample)), ErrorCode::ok);
  OpenPlace late(options_of(DhtMode::private_network));
  ASSERT_EQ(code_of(late.run(late.dht->bootstrap(late.call(), {net[0].endpoint()}))), ErrorCode::ok);
  ASSERT_TRUE(late.becomes_ready());
  EXPECT_EQ(late.get(sample_key(1)).values, std::vector{sample});
}

TEST(OpenDht, nodes_of_another_network_are_not_heard) {
  OpenNet net(2);
  DhtOptions foreign = options_of(DhtMode::private_network, {net[0].endpoint()});
  foreign.network = 8;
  OpenPlace stranger(foreign);
  // The node that it asked would have told it of the other by the time that a third one is ready.
  ASSERT_TRUE(net.add().becomes_ready());
  EXPECT_EQ(stranger.status().good_nodes, 0u);
}

TEST(OpenDht, a_node_that_dies_is_survived) {
  OpenNet net(5);
  for (unsigned i = 0; i < 10; ++i) ASSERT_EQ(code_of(net[1].put(sample_key(i), sample)), ErrorCode::ok);
  net.remove(2);
  for (unsigned i = 0; i < 10; ++i) EXPECT_EQ(net[3].get(sample_key(i)).values, std::vector{sample}) << i;
}

TEST(OpenDht, a_restart_finds_the_network_by_the_peers_it_knew) {
  OpenNet net(3);
  ASSERT_EQ(code_of(net[1].put(sample_key(1), sample)), ErrorCode::ok);
  const auto known = net[2].run(net[2].dht->export_peers(net[2].call()));
  ASSERT_EQ(code_of(known), ErrorCode::ok);
  std::set<std::uint16_t> ports;
  for (const DhtPeer& peer : *known) ports.insert(peer.port);
  EXPECT_TRUE(ports.contains(net[0].status().port));
  net.remove(2);
  DhtOptions again = options_of(DhtMode::private_network);
  again.peers = *known;
  OpenPlace restarted(again);
  EXPECT_EQ(restarted.get(sample_key(1)).values, std::vector{sample});
}

TEST(OpenDht, DH1_what_comes_after_a_cancel_is_heard_by_nobody) {
  OpenNet net(3);
  for (std::uint64_t id = 1; id <= 20; ++id)
    ASSERT_EQ(code_of(net[1].put(sample_key(1), {id, "value"})), ErrorCode::ok);
  OpenPlace& at = net[2];
  for (int round = 0; round < 50; ++round) {
    std::vector<DhtValue> values;
    std::optional<Result<DhtOutcome>> outcome;
    CancelSource stop(at.machine.shard, &at.call().cancel());
    at.real.spawn(run_get(at.call().under(stop), at.dht.get(), sample_key(1), &values, &outcome));
    for (int turn = 0; turn < round % 4; ++turn) at.real.loop.turn(Duration{0});
    {
      ShardScope here(at.machine.shard);
      stop.cancel(StopReason::client_gone);
    }
    ASSERT_TRUE(at.real.turn_until([&] { return outcome.has_value(); }));
    if (!*outcome) EXPECT_EQ(code_of(*outcome), ErrorCode::cancelled);
  }
  EXPECT_EQ(at.get(sample_key(1)).values.size(), 20u);
}

TEST(OpenDht, DH5_a_close_ends_gets_and_puts_that_are_under_way) {
  // A node whose only peer is silent neither answers nor gives up soon.
  for (int round = 0; round < 10; ++round) {
    OpenNet net(2);
    OpenPlace& at = net[1];
    net[0].close();
    std::vector<DhtValue> values;
    std::optional<Result<DhtOutcome>> got;
    std::optional<Result<>> done;
    at.real.spawn(run_get(at.call(), at.dht.get(), sample_key(1), &values, &got));
    at.real.spawn(run_put(at.call(), at.dht.get(), sample_key(2), &done));
    for (int turn = 0; turn < round; ++turn) at.real.loop.turn(Duration{0});
    EXPECT_EQ(at.close(), ErrorCode::ok);
    ASSERT_TRUE(at.real.turn_until([&] { return got.has_value() && done.has_value(); }));
    EXPECT_EQ(code_of(*got), ErrorCode::closed);
    EXPECT_EQ(code_of(*done), ErrorCode::closed);
  }
}

TEST(OpenDht, an_address_that_is_not_here_cannot_be_bound) {
  RealPlace place;
  for (const char* host : {"203.0.113.77", "not an address"}) {
    DhtOptions options = options_of(DhtMode::private_network);
    options.bind = {host, 0};
    EXPECT_EQ(code_of(place.run(OpenDhtMaker().open(place.call(), place.machine, options))),
              ErrorCode::io_failed);
  }
  OpenPlace first(options_of(DhtMode::private_network));
  DhtOptions same = options_of(DhtMode::private_network);
  same.bind = first.endpoint();
  EXPECT_EQ(code_of(place.run(OpenDhtMaker().open(place.call(), place.machine, same))), ErrorCode::io_failed);
}

TEST(OpenDht, options_that_make_no_sense_are_invalid_and_local_is_within_the_process) {
  RealPlace place;
  DhtOptions options = options_of(DhtMode::private_network);
  options.network = 0;
  EXPECT_EQ(code_of(place.run(OpenDhtMaker().open(place.call(), place.machine, options))),
            ErrorCode::invalid);
  OpenPlace local{DhtOptions{}};
  EXPECT_TRUE(local.status().ready);
  EXPECT_EQ(local.status().port, 0u);
}

TEST(OpenDht, many_gets_and_puts_at_once_all_end) {
  OpenNet net(4);
  OpenPlace& at = net[1];
  std::vector<std::optional<Result<>>> puts(64);
  for (unsigned i = 0; i < puts.size(); ++i)
    at.real.spawn(run_put(at.call(), at.dht.get(), sample_key(i), &puts[i]));
  ASSERT_TRUE(at.real.turn_until(
      [&] { return std::ranges::all_of(puts, [](const auto& one) { return one.has_value(); }); }));
  for (const auto& one : puts) EXPECT_EQ(code_of(*one), ErrorCode::ok);
  std::vector<std::vector<DhtValue>> values(puts.size());
  std::vector<std::optional<Result<DhtOutcome>>> gets(puts.size());
  OpenPlace& other = net[3];
  for (unsigned i = 0; i < gets.size(); ++i)
    other.real.spawn(run_get(other.call(), other.dht.get(), sample_key(i), &values[i], &gets[i]));
  ASSERT_TRUE(other.real.turn_until(
      [&] { return std::ranges::all_of(gets, [](const auto& one) { return one.has_value(); }); }));
  for (unsigned i = 0; i < gets.size(); ++i) {
    EXPECT_EQ(code_of(*gets[i]), ErrorCode::ok);
    EXPECT_EQ(values[i], std::vector{sample});
  }
}

TEST(OpenDht, OD2_a_node_begins_anew_before_it_remembers_too_many_keys) {
  OpenNet net(2);
  OpenPlace& worn = net.add({.keys_most = 100});
  ASSERT_TRUE(worn.becomes_ready());
  OpenPlace other(options_of(DhtMode::private_network, {worn.endpoint()}));
  ASSERT_TRUE(other.becomes_ready());
  for (unsigned i = 0; i < 10; ++i) ASSERT_EQ(code_of(other.put(sample_key(i), sample)), ErrorCode::ok);
  const DhtStatus before = worn.status();
  EXPECT_GT(before.stored_values, 0u);
  for (unsigned i = 0; i < 200; ++i)
    EXPECT_EQ(each_once(worn.get(sample_key(i % 10)).values), std::vector{sample}) << i;
  EXPECT_TRUE(worn.becomes_ready());
  const DhtStatus after = worn.status();
  EXPECT_EQ(after.port, before.port);
  EXPECT_EQ(after.stored_values, before.stored_values) << "what it keeps for others";
}

}  // namespace
}  // namespace cairn::io
