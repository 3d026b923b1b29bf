#include "services/gateway/tenants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/driven_shard.h"

namespace cairn::gateway {
namespace {

constexpr Instant begin{1'000'000'000'000};

io::PeerAddress v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
  io::PeerAddress peer;
  peer.bytes[10] = peer.bytes[11] = 0xff;
  peer.bytes[12] = a, peer.bytes[13] = b, peer.bytes[14] = c, peer.bytes[15] = d;
  return peer;
}

TEST(Tenants, peers_of_one_network_are_one_tenant) {
  EXPECT_EQ(format_tenant_address(v4(203, 0, 113, 9)), "203.0.113.0/24");
  EXPECT_EQ(tenant_network(v4(203, 0, 113, 9)), tenant_network(v4(203, 0, 113, 200)));
  EXPECT_NE(tenant_network(v4(203, 0, 113, 9)), tenant_network(v4(203, 0, 112, 9)));
  io::PeerAddress six{.bytes = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0x12, 0x34, 5}};
  io::PeerAddress same = six, other = six;
  same.bytes[7] = 0xff;
  other.bytes[6] = 0x13;
  EXPECT_EQ(format_tenant_address(six), "2001:db8:0:1200::/56");
  EXPECT_EQ(tenant_network(six), tenant_network(same));
  EXPECT_NE(tenant_network(six), tenant_network(other));
  EXPECT_EQ(format_tenant_address({.local = true}), "local");
}

TEST(Tenants, the_one_that_was_idle_longest_is_forgotten_and_none_that_is_in_use) {
  Tenants tenants({});
  const TenantPtr used = tenants.find("0", true);
  const Tenant* second = tenants.find("1", true).get();
  for (std::size_t i = 2; i < Tenants::addresses_max; ++i) (void)tenants.find(fmt::format("{}", i), true);
  EXPECT_EQ(tenants.size(), Tenants::addresses_max);
  second->quota.limits();
  tenants.find("1", true)->quota.count_bytes(7, {});
  (void)tenants.find("new", true);
  EXPECT_EQ(tenants.size(), Tenants::addresses_max);
  EXPECT_EQ(tenants.find("0", true), used);
  EXPECT_EQ(tenants.find("1", true)->quota.used(0), 7u) << "it asked lately";
  EXPECT_EQ(tenants.size(), Tenants::addresses_max);
}

TEST(Tenants, those_with_tokens_are_not_pushed_out_by_addresses) {
  Tenants tenants({});
  tenants.find("alice", false)->quota.count_bytes(7, {});
  for (std::size_t i = 0; i < Tenants::addresses_max + 10; ++i)
    (void)tenants.find(fmt::format("{}", i), true);
  EXPECT_EQ(tenants.find("alice", false)->quota.used(0), 7u);
}

TEST(Tenants, a_token_cannot_be_an_addresss_tenant_by_its_name) {
  Tenants tenants({});
  tenants.find("local", true)->quota.count_bytes(7, {});
  const TenantPtr token = tenants.find("local", false);
  EXPECT_FALSE(token->is_address);
  EXPECT_EQ(token->quota.used(0), 0u);
  EXPECT_TRUE(tenants.find("local", true)->is_address);
  EXPECT_EQ(tenants.size(), 2u);
}

TEST(Tenants, new_rules_hold_for_those_that_are_there_and_those_that_come) {
  Tenants tenants({.default_weight = 1, .named = {{.name = "alice", .weight = 4}}});
  const TenantPtr alice = tenants.find("alice", false), bob = tenants.find("bob", false);
  EXPECT_EQ(alice->turns.weight(), 4u);
  EXPECT_EQ(alice->label, 0u);
  EXPECT_EQ(bob->label, 1u) << "counted as `other`";
  DeficitRoundRobin order;
  tenants.set_rules({.default_weight = 2, .named = {{.name = "bob", .quota = QuotaLimits{.rps = 3}}}},
                    [&](Tenant& tenant, std::uint32_t weight) { order.set_weight(tenant.turns, weight); });
  EXPECT_EQ(alice->turns.weight(), 2u);
  EXPECT_EQ(bob->quota.limits().rps, 3u);
  EXPECT_EQ(tenants.find("carol", false)->turns.weight(), 2u);
}

TEST(Tenants, a_walk_lets_others_use_the_table_and_meets_who_was_there_all_the_time_once) {
  Tenants tenants({});
  std::vector<TenantPtr> held;
  for (std::size_t i = 0; i < Tenants::addresses_max; ++i) {
    TenantPtr tenant = tenants.find(fmt::format("{}", i), true);
    if (i % 2 == 0) held.push_back(std::move(tenant));
  }
  (void)tenants.find("alice", false);
  std::map<std::string, int> met;
  std::size_t in_slice = 0, slices = 0;
  const auto meet = [&](const Tenant& tenant) {
    ++met[tenant.name];
    ++in_slice;
  };
  for (Tenants::Walk walk; tenants.go_on(walk, meet); in_slice = 0) {
    EXPECT_LE(in_slice, Tenants::slice);
    (void)tenants.find(fmt::format("new {}", ++slices), true);  // one that is idle is forgotten
  }
  EXPECT_GE(slices, Tenants::addresses_max / Tenants::slice);
  EXPECT_EQ(met["alice"], 1);
  for (const TenantPtr& tenant : held) ASSERT_EQ(met[tenant->name], 1) << tenant->name;
  for (const auto& [name, times] : met) ASSERT_EQ(times, 1) << name;
}

TEST(Tenants, one_that_is_called_as_the_rest_is_counted_with_it) {
  Tenants tenants({.named = {{.name = "alice", .weight = 2}, {.name = "other", .weight = 4}}});
  EXPECT_EQ(tenants.labels(), (std::vector<std::string>{"alice", "other"}));
  EXPECT_EQ(tenants.find("other", false)->label, 1u);
  EXPECT_EQ(tenants.find("other", false)->turns.weight(), 4u);
  EXPECT_EQ(tenants.find("bob", false)->label, 1u);
}

// TE-2
TEST(Tenants, new_rules_hold_for_those_that_share_one_tenant) {
  Tenants tenants({.default_quota = {.rps = 7}});
  std::vector<TenantPtr> held;
  for (std::size_t i = 0; i < Tenants::addresses_max; ++i)
    held.push_back(tenants.find(fmt::format("{}", i), true));
  const TenantPtr others = tenants.find("new", true);
  EXPECT_EQ(others, tenants.find("newer", true));
  EXPECT_EQ(others->quota.limits().rps, 7u);
  DeficitRoundRobin order;
  tenants.set_rules({.default_weight = 3, .default_quota = {.rps = 5}},
                    [&](Tenant& tenant, std::uint32_t weight) { order.set_weight(tenant.turns, weight); });
  EXPECT_EQ(others->quota.limits().rps, 5u);
  EXPECT_EQ(others->turns.weight(), 3u);
  others->turns.count_served(4);
  std::uint64_t served = 0;
  tenants.for_each_of(0, [&](const Tenant& tenant) { served += tenant.turns.served(); });
  EXPECT_EQ(served, 4u) << "their units are counted";
}

// --- TE-3

TEST(Tenants, alone_a_tenant_has_all_places_and_with_another_its_share_once_half_is_used) {
  Tenants tenants({});
  Permits inflight(8);
  const TenantPtr a = tenants.find("a", false), b = tenants.find("b", false);
  const auto enter = [&](Tenant& tenant) {
    return tenants.try_enter(tenant, tenants.asking(tenant, begin), inflight);
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(enter(*a));
  EXPECT_TRUE(enter(*b));
  EXPECT_TRUE(enter(*a)) << "the fourth is its share";
  EXPECT_FALSE(enter(*a));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(enter(*b));
  EXPECT_FALSE(enter(*b));
  for (int i = 0; i < 4; ++i) tenants.leave(*a, inflight);
  for (int i = 0; i < 4; ++i) tenants.leave(*b, inflight);
  const Instant later = begin + Duration::seconds(3);
  int entered = 0;
  while (tenants.try_enter(*a, tenants.asking(*a, later), inflight)) ++entered;
  EXPECT_EQ(entered, 8) << "nobody else asks any more";
  EXPECT_TRUE(tenants.try_enter(*b, tenants.asking(*b, later), inflight)) << "an eighth beyond the whole";
  tenants.leave(*b, inflight);
  while (entered-- > 0) tenants.leave(*a, inflight);
}

TEST(Tenants, the_rate_of_one_that_floods_is_its_share_and_the_others_have_theirs) {
  Tenants tenants({});
  RateLimiter rate(500);
  const TenantPtr a = tenants.find("a", false), b = tenants.find("b", false);
  int took_a = 0, took_b = 0, refused_b = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    const Instant now = begin + Duration::millis(ms);
    for (int i = 0; i < 5; ++i) took_a += tenants.try_take(*a, tenants.asking(*a, now), rate, now) ? 1 : 0;
    if (ms % 5 != 0) continue;
    const bool taken = static_cast<bool>(tenants.try_take(*b, tenants.asking(*b, now), rate, now));
    took_b += taken ? 1 : 0;
    refused_b += taken ? 0 : 1;
  }
  EXPECT_EQ(refused_b, 0);
  EXPECT_EQ(took_b, 2000);
  EXPECT_GE(took_a, 2500);
  EXPECT_LE(took_a + took_b, 5000 + 500 + 63);
}

TEST(Tenants, a_shard_whose_clock_is_behind_counts_nobody_twice) {
  Tenants tenants({});
  const TenantPtr a = tenants.find("a", false), b = tenants.find("b", false);
  const Instant early = begin + Duration::millis(4'997), late = begin + Duration::seconds(5);
  for (int i = 0; i < 100; ++i)
    for (const TenantPtr& tenant : {a, b})
      for (const Instant now : {late, early}) EXPECT_LE(tenants.asking(*tenant, now), 2u);
  EXPECT_EQ(tenants.asking(*a, early), 2u);
  EXPECT_EQ(tenants.asking(*a, late + Duration::seconds(1)), 2u) << "b asked in the second before";
  EXPECT_EQ(tenants.asking(*b, early), 2u);
  EXPECT_EQ(tenants.asking(*a, late + Duration::seconds(9)), 1u);
}

TEST(Tenants, a_shard_whose_clock_is_behind_gives_no_rate_back) {
  Tenants tenants({});
  RateLimiter rate(1000);
  const TenantPtr a = tenants.find("a", false);
  const Instant early = begin + Duration::millis(400), late = begin + Duration::millis(500);
  const auto take = [&](Instant now) {
    const std::int64_t before = a->paid_until.load();
    const bool taken = static_cast<bool>(tenants.try_take(*a, 10, rate, now));
    EXPECT_GE(a->paid_until.load(), before);
    return taken;
  };
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(take(late)) << "its share of a tenth";
  EXPECT_TRUE(take(early)) << "half of the rate is free";
  EXPECT_TRUE(take(late));
}

TEST(Tenants, places_are_in_proportion_to_the_weights) {
  Tenants tenants({.named = {{.name = "a", .weight = 3}}});
  Permits inflight(8);
  const TenantPtr a = tenants.find("a", false), b = tenants.find("b", false);
  (void)tenants.asking(*b, begin);
  int entered = 0;
  while (tenants.try_enter(*a, tenants.asking(*a, begin), inflight)) ++entered;
  EXPECT_EQ(entered, 6);
  while (entered-- > 0) tenants.leave(*a, inflight);
}

TEST(Tenants, a_burst_of_one_leaves_the_others_their_half_of_it) {
  Tenants tenants({});
  RateLimiter rate(500);
  const TenantPtr a = tenants.find("a", false), b = tenants.find("b", false);
  EXPECT_TRUE(tenants.try_take(*b, tenants.asking(*b, begin), rate, begin));
  int took = 0;
  for (int i = 0; i < 1000; ++i) took += tenants.try_take(*a, tenants.asking(*a, begin), rate, begin) ? 1 : 0;
  EXPECT_GE(took, 248);
  EXPECT_LE(took, 250);
}

TEST(Tenants, alone_a_tenant_has_the_whole_rate) {
  Tenants tenants({});
  RateLimiter rate(500);
  const TenantPtr a = tenants.find("a", false);
  int took = 0;
  for (int ms = 0; ms < 1000; ++ms) {
    const Instant now = begin + Duration::millis(ms);
    for (int i = 0; i < 2; ++i) took += tenants.try_take(*a, tenants.asking(*a, now), rate, now) ? 1 : 0;
  }
  EXPECT_GE(took, 998);
  EXPECT_LE(took, 1000);
}

}  // namespace
}  // namespace cairn::gateway
