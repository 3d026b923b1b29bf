#include "services/index/cache.h"

#include <gtest/gtest.h>

#include "io/sim/world.h"
#include "services/index/simulated_targets.h"

namespace cairn::index {
namespace {

Question numbered(int number) { return "n/" + std::to_string(number); }
Answer change(std::uint64_t sequence) { return sample_answer(sample_change({.sequence = sequence})); }

// The janitor lives on the first of two shards.
class CacheTest : public testing::Test {
 protected:
  ~CacheTest() override {
    stop();
    world.run_for(Duration::millis(10));  // the mail comes home
    EXPECT_EQ(cache->waiting(), 0u);
    EXPECT_EQ(world.live_tasks(), 0u);
  }
  void start(CachePolicy policy = {}) {
    cache.emplace(node.shard(), node.mailbox(), policy, 7);
    janitor.spawn("cache_janitor", cache->run(janitor.call()));
  }
  void stop() {
    {
      const ShardScope here(node.shard());
      janitor.cancel(StopReason::draining);
    }
    world.run_until([&] { return janitor.empty(); });
  }
  Result<> send(Question question, Answer answer, unsigned shard = 1) {
    const ShardScope here(node.shard(shard));
    return cache->learn(std::move(question), std::move(answer), cache->generation(), node.mailbox(shard));
  }
  void learn(Question question, Answer answer, unsigned shard = 1) {
    ASSERT_TRUE(send(std::move(question), std::move(answer), shard));
    world.run_for(Duration::millis(10));
  }
  KnownPtr find(const Question& question) { return cache->find(question, world.now()); }
  std::uint64_t sequence(const Question& question) {
    const KnownPtr known = find(question);
    return known ? known->answer.changes.at(0).change.sequence : 0;
  }

  io::sim::World world{1};
  io::sim::Node& node = world.add_node("index", 2);
  std::optional<Cache> cache;
  Scope janitor{node.shard(), node.scope().call()};
  const Question name = std::string("docs/readme"), address = sample_address(1);
};

TEST_F(CacheTest, what_one_shard_learns_every_shard_finds) {
  start();
  EXPECT_EQ(find(name), nullptr);
  learn(name, change(3));
  learn(address, sample_answer(sample_provider()), 0);
  EXPECT_EQ(sequence(name), 3u);
  ASSERT_NE(find(address), nullptr);
  EXPECT_EQ(find(address)->answer.providers.size(), 1u);
  EXPECT_EQ(cache->size(), 2u);
  learn(numbered(1), {});
  ASSERT_NE(find(numbered(1)), nullptr);
  EXPECT_TRUE(find(numbered(1))->answer.is_empty());
}

// [KC-2]
TEST_F(CacheTest, nothing_is_found_after_its_time_and_soon_its_place_is_free) {
  start();
  learn(name, change(3));
  learn(numbered(1), {});
  world.run_for(Duration::millis(2900));
  EXPECT_NE(find(numbered(1)), nullptr);
  world.run_for(Duration::millis(100));
  EXPECT_EQ(find(numbered(1)), nullptr);
  EXPECT_NE(find(name), nullptr);
  world.run_for(Duration::seconds(1));
  EXPECT_EQ(cache->size(), 1u);
  world.run_for(Duration::millis(11'000));
  EXPECT_EQ(find(name), nullptr);
  world.run_for(Duration::seconds(1));
  EXPECT_EQ(cache->size(), 0u);
  EXPECT_EQ(cache->bytes(), 0u);
}

// [KC-2]
TEST_F(CacheTest, what_was_forgotten_is_not_brought_back_by_a_lookup_under_way) {
  start();
  learn(name, change(3));
  const std::uint64_t before = cache->generation();
  cache->forget_all();
  EXPECT_EQ(find(name), nullptr);
  {
    const ShardScope here(node.shard(1));
    ASSERT_TRUE(cache->learn(address, sample_answer(sample_provider()), before, node.mailbox(1)));
  }
  world.run_for(Duration::millis(10));
  EXPECT_EQ(find(address), nullptr);
  learn(name, change(2));
  EXPECT_EQ(sequence(name), 2u);
}

TEST_F(CacheTest, amnesia_drops_everything_each_interval) {
  start({.ttl = Duration::seconds(3600), .purge_interval = Duration::seconds(30)});
  learn(name, change(3));
  world.run_for(Duration::seconds(29));
  EXPECT_NE(find(name), nullptr);
  world.run_for(Duration::seconds(2));
  EXPECT_EQ(find(name), nullptr);
  EXPECT_EQ(cache->size(), 0u);
  learn(name, change(3));
  EXPECT_NE(find(name), nullptr);
  world.run_for(Duration::seconds(31));
  EXPECT_EQ(find(name), nullptr);
}

// [KC-3]
TEST_F(CacheTest, an_older_change_replaces_no_newer_one) {
  start();
  learn(name, change(5));
  learn(name, change(4));
  EXPECT_EQ(sequence(name), 5u);
  learn(name, change(6));
  EXPECT_EQ(sequence(name), 6u);
  learn(name, {});
  EXPECT_TRUE(find(name)->answer.is_empty());
  EXPECT_EQ(cache->size(), 1u);
}

// [KC-3]
TEST_F(CacheTest, providers_that_are_learned_later_join_those_that_are_known) {
  start();
  learn(address, sample_answer(sample_provider({.key = 1, .sequence = 5})));
  learn(address, sample_answer(sample_provider({.key = 2, .sequence = 1})));
  learn(address, sample_answer(sample_provider({.key = 1, .sequence = 4})));
  const KnownPtr known = find(address);
  ASSERT_EQ(known->answer.providers.size(), 2u);
  for (const SignedProvider& one : known->answer.providers)
    EXPECT_EQ(one.record.sequence, one.record.key == sample_key(1).public_key() ? 5u : 1u);
}

// [KC-1]
TEST_F(CacheTest, when_it_is_full_what_nobody_has_goes_first_then_the_oldest) {
  start({.entries = 3});
  learn(numbered(1), change(1));
  learn(numbered(2), {});
  learn(numbered(3), change(1));
  learn(numbered(4), change(1));
  EXPECT_EQ(find(numbered(2)), nullptr);
  learn(numbered(5), change(1));
  EXPECT_EQ(find(numbered(1)), nullptr);
  for (int kept : {3, 4, 5}) EXPECT_NE(find(numbered(kept)), nullptr);
  EXPECT_EQ(cache->size(), 3u);
  EXPECT_EQ(cache->evicted(), 2u);
}

TEST_F(CacheTest, a_flood_of_questions_for_nothing_costs_no_entry_of_use) {
  start({.entries = 4});
  for (int i = 0; i < 3; ++i) learn(numbered(i), change(1));
  for (int i = 100; i < 200; ++i) learn(numbered(i), {});
  for (int i = 0; i < 3; ++i) EXPECT_NE(find(numbered(i)), nullptr);
  EXPECT_NE(find(numbered(199)), nullptr);
  EXPECT_EQ(cache->size(), 4u);
  learn(numbered(3), change(1));
  learn(numbered(300), {});
  EXPECT_EQ(find(numbered(300)), nullptr);
}

// [KC-1]
TEST_F(CacheTest, large_answers_are_bounded_by_their_bytes) {
  start({.bytes = 16u << 10});
  for (int i = 0; i < 100; ++i) {
    learn(numbered(i), change(1));
    EXPECT_LE(cache->bytes(), 16u << 10);
  }
  EXPECT_LT(cache->size(), 30u);
  EXPECT_NE(find(numbered(99)), nullptr);
}

// [KC-4]
TEST_F(CacheTest, a_full_queue_costs_a_memory_and_is_counted) {
  start();
  for (std::size_t i = 0; i < Cache::learned_capacity; ++i)
    ASSERT_TRUE(send(numbered(static_cast<int>(i)), change(1)));
  const auto refused = send(name, change(1));
  EXPECT_EQ(refused.error().code, ErrorCode::busy);
  EXPECT_EQ(cache->lost(), 1u);
  world.run_for(Duration::millis(100));
  EXPECT_EQ(cache->size(), Cache::learned_capacity);
  EXPECT_EQ(cache->waiting(), 0u);
  EXPECT_TRUE(send(name, change(1)));
}

// [KC-5]
TEST_F(CacheTest, others_get_their_turn_while_much_is_forgotten) {
  start({.ttl = Duration::seconds(3600), .purge_interval = {}});
  for (int i = 0; i < 4000; ++i) {
    ASSERT_TRUE(send(numbered(i), change(1)));
    if (i % 500 == 499) world.run_for(Duration::millis(50));
  }
  world.run_for(Duration::millis(10));
  ASSERT_EQ(cache->size(), 4000u);
  cache->forget_all();
  std::size_t most = 0;
  while (cache->size() > 0) {
    const std::size_t before = cache->size();
    ASSERT_TRUE(world.step(Instant::never()));
    most = std::max(most, before - cache->size());
  }
  EXPECT_LE(most, 64u);
}

TEST_F(CacheTest, a_smaller_limit_is_reached_step_by_step) {
  start();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(send(numbered(i), change(1)));
  world.run_for(Duration::millis(50));
  cache->set_policy({.entries = 10});
  world.run_for(Duration::millis(1100));
  EXPECT_EQ(cache->size(), 10u);
}

TEST_F(CacheTest, what_comes_after_the_end_is_dropped) {
  start();
  stop();
  EXPECT_TRUE(send(name, change(1), 1));
  EXPECT_TRUE(send(name, change(1), 0));
  world.run_for(Duration::millis(10));
  EXPECT_EQ(find(name), nullptr);
}

}  // namespace
}  // namespace cairn::index
