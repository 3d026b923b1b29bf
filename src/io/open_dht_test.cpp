// What only the real network can show; what it promises beside is in dht_test.cpp.
#include "io/open_dht.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

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

// Another program of the same network: OpenDHT's own `dhtnode`, which knows nothing of our type of values.
class Stranger {
 public:
  explicit Stranger(const Endpoint& known) {
    std::array<int, 2> in{}, out{};
    CHECK(::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<std::string> words{"dhtnode", "-n", "7", "-p", "0", "-b", format_endpoint(known)};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    CHECK(::posix_spawnp(&child_, "dhtnode", &actions, nullptr, arguments.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    write_ = in[1];
    read_ = out[0];
  }
  ~Stranger() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::close(write_);
    ::close(read_);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  // As it told when it began.
  Endpoint endpoint() {
    const std::string line = read_line_with("running on port ");
    return {"127.0.0.1", static_cast<std::uint16_t>(std::stoi(line.substr(line.rfind(' ') + 1)))};
  }
  // Whether its put was acknowledged.
  bool put(const DhtKey& key, std::string_view text) {
    const std::string line = "p " + format_hex(key.bytes) + ' ' + std::string(text) + '\n';
    CHECK(::write(write_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
    return read_line_with("Put: ").find("Put: success") != std::string::npos;
  }

 private:
  std::string read_line_with(std::string_view text) {
    std::string line;
    for (char next = 0; ::read(read_, &next, 1) == 1;) {
      if (next != '\n')
        line += next;
      else if (line.find(text) != std::string::npos)
        return line;
      else
        line.clear();
    }
    ADD_FAILURE() << "it ended before it said " << text;
    return "0";
  }

  pid_t child_ = 0;
  int write_ = -1;
  int read_ = -1;
};

TEST(OpenDht, OD1_values_that_are_not_ours_are_neither_kept_nor_given) {
  OpenNet net(2);
  Stranger keeper(net[1].endpoint());
  Stranger writer(keeper.endpoint());
  ASSERT_TRUE(writer.put(sample_key(1), "of a stranger"));
  EXPECT_EQ(net[0].status().stored_values, 0u);
  EXPECT_EQ(net[1].status().stored_values, 0u);
  const auto got = net[1].get(sample_key(1));
  ASSERT_EQ(code_of(got.outcome), ErrorCode::ok);
  EXPECT_TRUE(got.values.empty());
  EXPECT_GE(got.outcome->dropped, 1u) << "the other stranger has kept it";
  EXPECT_GE(net[1].status().dropped, 1u);
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
  const auto whole = at.get(sample_key(1));
  ASSERT_EQ(code_of(whole.outcome), ErrorCode::ok);
  EXPECT_EQ(each_once(whole.values).size(), 20u);
}

TEST(OpenDht, OD3_gets_of_one_key_that_overlap_each_other_and_puts_are_all_whole) {
  OpenNet net(2);
  for (std::uint64_t id = 1; id <= 20; ++id)
    ASSERT_EQ(code_of(net[1].put(sample_key(1), {id, "value"})), ErrorCode::ok);
  OpenPlace& at = net.add();
  ASSERT_TRUE(at.becomes_ready());
  std::vector<std::vector<DhtValue>> values(30);
  std::vector<std::optional<Result<DhtOutcome>>> gets(values.size());
  for (std::size_t i = 0; i < gets.size(); ++i) {
    at.real.spawn(run_get(at.call(), at.dht.get(), sample_key(1), &values[i], &gets[i]));
    for (std::size_t turn = 0; turn < i % 5; ++turn) at.real.loop.turn(Duration{0});
  }
  ASSERT_TRUE(at.real.turn_until(
      [&] { return std::ranges::all_of(gets, [](const auto& one) { return one.has_value(); }); }));
  for (std::size_t i = 0; i < gets.size(); ++i) {
    EXPECT_EQ(code_of(*gets[i]), ErrorCode::ok);
    EXPECT_EQ(each_once(values[i]).size(), 20u) << i;
  }
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

TEST(OpenDht, each_shard_hears_what_it_has_asked) {
  OpenNet net(2);
  for (unsigned i = 0; i < 20; ++i) ASSERT_EQ(code_of(net[1].put(sample_key(i), sample)), ErrorCode::ok);
  RealPlace other;
  const std::unique_ptr<Dht> port = net[1].node->make_port(other.machine);
  std::thread second([&] {
    for (unsigned i = 0; i < 20; ++i) {
      std::vector<DhtValue> values;
      std::optional<Result<DhtOutcome>> outcome;
      other.real.spawn(run_get(other.call(), port.get(), sample_key(i), &values, &outcome));
      EXPECT_TRUE(other.real.turn_until([&] { return outcome.has_value(); }));
      EXPECT_EQ(each_once(values), std::vector{sample}) << i;
    }
  });
  for (unsigned i = 20; i-- > 0;)
    EXPECT_EQ(each_once(net[1].get(sample_key(i)).values), std::vector{sample}) << i;
  second.join();
}

TEST(OpenDht, OD2_a_node_begins_anew_before_it_remembers_too_many_keys) {
  OpenPlace worn(options_of(DhtMode::private_network), {.keys_most = 100});
  const DhtOptions joining = options_of(DhtMode::private_network, {worn.endpoint()});
  OpenPlace first(joining);
  OpenPlace second(joining);
  ASSERT_TRUE(first.becomes_ready() && second.becomes_ready() && worn.becomes_ready());
  for (unsigned i = 0; i < 10; ++i) ASSERT_EQ(code_of(second.put(sample_key(i), sample)), ErrorCode::ok);
  const DhtStatus before = worn.status();
  EXPECT_GT(before.stored_values, 0u);
  for (unsigned i = 0; i < 200; ++i)
    EXPECT_EQ(each_once(worn.get(sample_key(i % 10)).values), std::vector{sample}) << i;
  EXPECT_TRUE(worn.status().ready);
  const DhtStatus after = worn.status();
  EXPECT_EQ(after.port, before.port);
  EXPECT_EQ(after.stored_values, before.stored_values) << "what it keeps for others";
}

}  // namespace
}  // namespace cairn::io
