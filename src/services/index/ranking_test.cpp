#include "services/index/ranking.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "services/index/simulated_targets.h"

namespace cairn::index {
namespace {

WallTime ago(std::int64_t seconds) { return {sample_now.ms - seconds * 1000}; }

// Facts by node key; a provider that a test does not describe is near, well and just seen.
struct World {
  std::map<crypto::Ed25519PublicKey, ProviderFacts> facts;
  std::vector<SignedProvider> providers;
  RankPolicy policy{.latency_bounds = {Duration::millis(10), Duration::millis(50), Duration::millis(200)}};
  RankQuery query{.address = sample_address(1), .now = sample_now, .limit = 32};

  void add(unsigned char key, ProviderFacts known) {
    providers.push_back(sample_provider({.key = key}));
    facts[sample_key(key).public_key()] = std::move(known);
  }
  std::vector<Ranked> ranked() const {
    const auto facts_of = [this](const format::ProviderRecord& record) {
      const auto found = facts.find(record.key);
      return found == facts.end() ? ProviderFacts{.latency = Duration{}, .seen = sample_now} : found->second;
    };
    return rank(providers, facts_of, policy, query);
  }
  // The numbers of the keys, the best first.
  std::vector<int> order() const {
    std::vector<int> out;
    for (const Ranked& one : ranked())
      for (int number = 1; number < 128; ++number)
        if (key_of(number) == one.provider.record.key) out.push_back(number);
    return out;
  }
  static const crypto::Ed25519PublicKey& key_of(int number) {
    static std::map<int, crypto::Ed25519PublicKey> keys;
    auto found = keys.find(number);
    if (found == keys.end())
      found = keys.emplace(number, sample_key(static_cast<unsigned char>(number)).public_key()).first;
    return found->second;
  }
};
const ProviderFacts good{.region = "eu", .latency = Duration::millis(5), .seen = sample_now};
ProviderFacts with(auto change) {
  ProviderFacts facts = good;
  change(facts);
  return facts;
}

TEST(Ranking, region_then_freshness_nearness_and_health_decide) {
  World world;
  world.query.region = "eu";
  world.add(1, with([](auto& f) { f.region = "us"; }));
  world.add(2, with([](auto& f) { f.seen = ago(1200); }));
  world.add(3, good);
  world.add(4, with([](auto& f) { f.latency = Duration::millis(20); }));
  world.add(5, with([](auto& f) { f.breaker = Breaker::State::open; }));
  world.add(6, with([](auto& f) { f.breaker = Breaker::State::half_open; }));
  EXPECT_EQ(world.order(), (std::vector<int>{3, 4, 6, 2, 5, 1}));
}

TEST(Ranking, the_score_is_what_the_formula_says) {
  World world;
  world.add(1, with([](auto& f) {
              f.seen = ago(600);
              f.latency = Duration::millis(60);
              f.breaker = Breaker::State::half_open;
            }));
  EXPECT_DOUBLE_EQ(world.ranked().at(0).score, (0.5 + 0.5 + 0.5) / 3);
  world.query.region = "eu";
  EXPECT_DOUBLE_EQ(world.ranked().at(0).score, 0.6 + 0.4 * 0.5);
  world.query.region = "us";
  EXPECT_DOUBLE_EQ(world.ranked().at(0).score, 0.4 * 0.5);
  EXPECT_EQ(world.ranked().at(0).latency_class, 2u);
  EXPECT_EQ(world.ranked().at(0).age, Duration::seconds(600));
}

// [RK-2]
TEST(Ranking, withdrawn_expired_and_foreign_records_never_count) {
  World world;
  world.providers.push_back(sample_provider({.key = 1, .withdrawn = true}));
  world.providers.push_back(sample_provider({.key = 2, .lives = Duration::seconds(0)}));
  world.providers.push_back(sample_provider({.key = 3, .address = 2}));
  world.providers.push_back(sample_provider({.key = 4, .sequence = 7}));
  world.providers.push_back(sample_provider({.key = 4, .sequence = 8, .withdrawn = true}));
  world.providers.push_back(sample_provider({.key = 5, .sequence = 1}));
  world.providers.push_back(sample_provider({.key = 5, .sequence = 2}));
  ASSERT_EQ(world.order(), (std::vector<int>{5}));
  EXPECT_EQ(world.ranked().at(0).provider.record.sequence, 2u);
}

TEST(Ranking, regions_denied_nodes_and_stale_ones_are_left_out) {
  World world;
  world.policy.allowed_regions = {"eu", "us"};
  world.policy.provider_denylist = {World::key_of(2)};
  world.query.min_freshness = Duration::seconds(60);
  world.add(1, good);
  world.add(2, good);
  world.add(3, with([](auto& f) { f.region = "ap"; }));
  world.add(4, with([](auto& f) { f.region = ""; }));
  world.add(5, with([](auto& f) { f.seen = ago(61); }));
  world.add(6, with([](auto& f) {
              f.region = "us";
              f.seen = ago(60);
            }));
  EXPECT_EQ(world.order(), (std::vector<int>{1, 6}));
}

TEST(Ranking, a_clock_that_was_set_back_makes_nobody_fresher_than_fresh) {
  World world;
  world.add(1, with([](auto& f) { f.seen = WallTime{sample_now.ms + 3'600'000}; }));
  EXPECT_DOUBLE_EQ(world.ranked().at(0).score, 1);
  EXPECT_EQ(world.ranked().at(0).age, Duration{});
}

TEST(Ranking, the_limit_keeps_the_best) {
  World world;
  world.query.limit = 2;
  world.add(1, with([](auto& f) { f.seen = ago(100); }));
  world.add(2, with([](auto& f) { f.seen = ago(10); }));
  world.add(3, with([](auto& f) { f.seen = ago(50); }));
  EXPECT_EQ(world.order(), (std::vector<int>{2, 3}));
}

// --- properties

// Signing is slow, so all draws are of these.
const std::vector<SignedProvider>& pool() {
  static const std::vector<SignedProvider> made = [] {
    std::vector<SignedProvider> out;
    for (unsigned char key = 1; key <= 40; ++key)
      for (std::uint64_t sequence = 1; sequence <= 2; ++sequence)
        out.push_back(sample_provider({.key = key,
                                       .sequence = sequence,
                                       .withdrawn = (key + sequence) % 7 == 0,
                                       .lives = Duration::seconds((key * 3 + sequence) % 5 == 0 ? -1 : 60)}));
    return out;
  }();
  return made;
}
ProviderFacts draw_facts() {
  ProviderFacts facts{
      .region = *rc::gen::element<std::string>("", "eu", "us", "ap"),
      .breaker = *rc::gen::element(Breaker::State::closed, Breaker::State::half_open, Breaker::State::open),
      .seen = ago(*rc::gen::inRange<std::int64_t>(-100, 5000))};
  if (*rc::gen::arbitrary<bool>()) facts.latency = Duration::millis(*rc::gen::inRange<std::int64_t>(0, 400));
  return facts;
}
World draw_world() {
  World world;
  world.query.region = *rc::gen::element<std::string>("", "eu", "us");
  world.query.limit = *rc::gen::inRange<std::size_t>(1, 64);
  world.policy.region_bias = *rc::gen::inRange(0, 101) / 100.0;
  const auto count = *rc::gen::inRange<std::size_t>(0, 60);
  for (std::size_t i = 0; i < count; ++i) {
    const SignedProvider& one = pool()[*rc::gen::inRange<std::size_t>(0, pool().size())];
    world.providers.push_back(one);
    world.facts.emplace(one.record.key, draw_facts());
  }
  return world;
}

// [RK-1]
RC_GTEST_PROP(RankingOf, anything_is_the_same_in_every_order, ()) {
  World world = draw_world();
  const auto first = world.ranked();
  for (std::size_t i = world.providers.size(); i > 1; --i)
    std::swap(world.providers[i - 1], world.providers[*rc::gen::inRange<std::size_t>(0, i)]);
  RC_ASSERT(world.ranked() == first);
}

// [RK-1] [RK-2] [RK-3]
RC_GTEST_PROP(RankingOf, anything_is_sorted_bounded_and_of_records_in_force, ()) {
  const World world = draw_world();
  const auto ranked = world.ranked();
  RC_ASSERT(ranked.size() <= std::min(world.query.limit, providers_max));
  std::set<crypto::Ed25519PublicKey> keys;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const Ranked& one = ranked[i];
    RC_ASSERT(one.score >= 0 && one.score <= 1);
    RC_ASSERT(keys.insert(one.provider.record.key).second);
    RC_ASSERT(is_fresh(one.provider.record, sample_now));
    for (const SignedProvider& other : world.providers)
      RC_ASSERT(other.record.key != one.provider.record.key || !is_newer(other, one.provider));
    if (i == 0) continue;
    const Ranked& before = ranked[i - 1];
    RC_ASSERT(before.score > one.score ||
              (before.score == one.score && before.provider.record.key < one.provider.record.key));
  }
}

// [RK-3]
RC_GTEST_PROP(RankingOf, one_provider_that_gets_better_never_loses_score, ()) {
  World world;
  world.query.region = *rc::gen::element<std::string>("", "eu");
  world.policy.region_bias = *rc::gen::inRange(0, 101) / 100.0;
  ProviderFacts facts = draw_facts();
  world.add(1, facts);
  const double before = world.ranked().at(0).score;
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      facts.region = "eu";
      break;
    case 1:
      facts.breaker = Breaker::State::closed;
      break;
    case 2:
      facts.seen = sample_now;
      break;
    default:
      facts.latency = Duration{};
  }
  world.facts[World::key_of(1)] = facts;
  RC_ASSERT(world.ranked().at(0).score >= before);
}

}  // namespace
}  // namespace cairn::index
