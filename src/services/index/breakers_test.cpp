#include "services/index/breakers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "io/sim/world.h"

namespace cairn::index {
namespace {

using State = Breaker::State;

// The janitor lives on the first of two shards.
class BreakersTest : public testing::Test {
 protected:
  ~BreakersTest() override {
    stop();
    world.run_for(Duration::millis(10));
    EXPECT_EQ(table->waiting(), 0u);
  }
  void start(BreakerRules rules = {}) {
    table.emplace(node.shard(), node.mailbox(), rules);
    janitor.spawn("breaker_janitor", table->run(janitor.call()));
  }
  void stop() {
    {
      const ShardScope here(node.shard());
      janitor.cancel(StopReason::draining);
    }
    world.run_until([&] { return janitor.empty(); });
  }
  std::optional<BreakerTable::Try> begin(unsigned shard = 1, const std::string& target = "dht") {
    const ShardScope here(node.shard(shard));
    return table->try_begin(target, node.mailbox(shard));
  }
  void end(std::optional<BreakerTable::Try>& one, bool good, unsigned shard = 1) {
    const ShardScope here(node.shard(shard));
    one->end(good);
    one.reset();
  }
  void ask(int count, bool good, unsigned shard = 1) {
    for (int i = 0; i < count; ++i) {
      auto one = begin(shard);
      ASSERT_TRUE(one);
      end(one, good, shard);
    }
    world.run_for(Duration::millis(10));
  }
  void trip() { ask(BreakerTable::outcomes_least, false); }
  void cool_down() { world.run_for(Duration::millis(11'100)); }
  State state(const std::string& target = "dht") { return table->snapshot()->state_of(target); }

  io::sim::World world{1};
  io::sim::Node& node = world.add_node("index", 2);
  std::optional<BreakerTable> table;
  Scope janitor{node.shard(), node.scope().call()};
};

// [BT-2]
TEST_F(BreakersTest, it_opens_above_the_threshold_and_not_at_it) {
  start();
  ask(4, true);
  ask(4, false);
  EXPECT_EQ(state(), State::closed);
  ask(1, false);
  EXPECT_EQ(state(), State::open);
  EXPECT_FALSE(begin(0));
  EXPECT_FALSE(begin(1));
  EXPECT_TRUE(begin(1, "another"));
  EXPECT_EQ(table->snapshot()->opened, 1u);
}

TEST_F(BreakersTest, a_few_failures_say_nothing) {
  start();
  ask(BreakerTable::outcomes_least - 1, false);
  EXPECT_EQ(state(), State::closed);
}

TEST_F(BreakersTest, a_threshold_of_one_never_opens) {
  start({.trip_threshold = 1});
  ask(100, false);
  EXPECT_EQ(state(), State::closed);
}

// [BT-2]
TEST_F(BreakersTest, failures_of_before_the_window_do_not_count) {
  start();
  ask(BreakerTable::outcomes_least - 1, false);
  world.run_for(Duration::seconds(31));
  ask(BreakerTable::outcomes_least - 1, false);
  EXPECT_EQ(state(), State::closed);
  ask(1, false);
  EXPECT_EQ(state(), State::open);
}

// [BT-2]
TEST_F(BreakersTest, after_the_cooldown_so_many_good_probes_close_it) {
  start();
  trip();
  world.run_for(Duration::millis(9'900));
  EXPECT_EQ(state(), State::open);
  world.run_for(Duration::millis(1'200));
  EXPECT_EQ(state(), State::half_open);
  ask(2, true);
  EXPECT_EQ(state(), State::half_open);
  ask(1, true);
  EXPECT_EQ(state(), State::closed);
  ask(4, false);
  EXPECT_EQ(state(), State::closed);  // what was before is forgotten
}

TEST_F(BreakersTest, one_failed_probe_opens_it_again_for_one_cooldown) {
  start();
  trip();
  for (int round = 0; round < 3; ++round) {
    cool_down();
    ASSERT_EQ(state(), State::half_open);
    ask(1, false);
    EXPECT_EQ(state(), State::open);
  }
}

// [BT-3]
TEST_F(BreakersTest, no_more_probes_than_declared_are_out_over_all_shards) {
  start();
  trip();
  cool_down();
  std::vector<std::optional<BreakerTable::Try>> out;
  for (unsigned i = 0; i < 3; ++i) out.push_back(begin(i % 2));
  for (const auto& one : out) EXPECT_TRUE(one);
  EXPECT_FALSE(begin(0));
  EXPECT_FALSE(begin(1));
  end(out[0], true, 0);  // used up before the janitor knows of it
  EXPECT_FALSE(begin(1));
  out[1].reset();  // without a verdict
  auto again = begin(0);
  EXPECT_TRUE(again);
  EXPECT_FALSE(begin(0));
  end(again, true, 0);
  end(out[2], true, 0);
  world.run_for(Duration::millis(10));
  EXPECT_EQ(state(), State::closed);
}

// [BT-3]
TEST_F(BreakersTest, who_still_reads_the_half_open_table_finds_no_ticket_once_it_is_decided) {
  start();
  trip();
  cool_down();
  const BreakerTable::SnapshotPtr old = table->snapshot();
  ask(1, false);
  ASSERT_EQ(state(), State::open);
  EXPECT_EQ(old->state_of("dht"), State::half_open);
  EXPECT_FALSE(old->entries.at("dht").tickets->try_take());
}

TEST_F(BreakersTest, the_verdict_of_a_request_from_before_the_change_counts_no_more) {
  start();
  auto slow = begin();
  trip();
  cool_down();
  end(slow, false);
  world.run_for(Duration::millis(10));
  EXPECT_EQ(state(), State::half_open);
  ask(3, true);
  EXPECT_EQ(state(), State::closed);
}

// [BT-4]
TEST_F(BreakersTest, a_full_queue_is_counted_and_gives_the_place_of_the_probe_back) {
  start();
  trip();
  cool_down();
  std::vector<std::optional<BreakerTable::Try>> others;
  for (std::size_t i = 0; i < BreakerTable::outcomes_capacity; ++i) others.push_back(begin(1, "another"));
  for (auto& one : others) end(one, true);
  auto probe = begin();
  ASSERT_TRUE(probe);
  end(probe, true);
  EXPECT_EQ(table->lost(), 1u);
  world.run_for(Duration::millis(100));
  ask(3, true);
  EXPECT_EQ(state(), State::closed);
}

TEST_F(BreakersTest, new_rules_hold_from_now_on) {
  start({.probes = 1});
  trip();
  cool_down();
  ASSERT_EQ(state(), State::half_open);
  {
    const ShardScope here(node.shard());
    table->set_rules({.probes = 2});
  }
  ask(1, true);
  EXPECT_EQ(state(), State::half_open);
  {
    const ShardScope here(node.shard());
    table->set_rules({.probes = 1});  // which it has had
  }
  EXPECT_EQ(state(), State::closed);
}

TEST_F(BreakersTest, a_target_that_is_not_heard_of_is_forgotten) {
  start();
  trip();
  cool_down();
  ask(3, true);
  EXPECT_EQ(table->snapshot()->entries.size(), 1u);
  world.run_for(Duration::seconds(700));
  EXPECT_EQ(table->snapshot()->entries.size(), 0u);
  trip();
  EXPECT_EQ(state(), State::open);
}

TEST_F(BreakersTest, an_outcome_after_the_end_is_dropped) {
  start();
  auto one = begin(), other = begin(0);
  stop();
  end(one, false);
  end(other, false, 0);
}

// [PK-1] [PK-2]
TEST(ProbeTickets, are_never_more_than_were_issued_however_many_threads_take) {
  constexpr int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    ProbeTickets tickets(3);
    std::atomic<int> out{0}, most{0};
    const auto probe = [&] {
      for (int i = 0; i < 4; ++i) {
        if (!tickets.try_take()) continue;
        const int now = ++out;
        int known = most.load();
        while (now > known && !most.compare_exchange_weak(known, now)) {
        }
        --out;
        tickets.give_back();
      }
    };
    std::thread one(probe), two(probe), three(probe), four(probe);
    one.join(), two.join(), three.join(), four.join();
    ASSERT_LE(most.load(), 3);
    if (round == 0) {
      tickets.close();
      EXPECT_FALSE(tickets.try_take());
    }
  }
}

}  // namespace
}  // namespace cairn::index
