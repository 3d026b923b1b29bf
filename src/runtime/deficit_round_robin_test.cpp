#include "runtime/deficit_round_robin.h"

#include <gtest/gtest.h>

#include <memory>
#include <queue>
#include <vector>

#include "runtime/random.h"

namespace cairn {
namespace {

// Requests that hold their slot for a random time, and tenants that send another as soon as one is done.
struct Crowd {
  struct Held {
    std::uint64_t until;
    DrrTenant* tenant;
    bool operator>(const Held& other) const { return until > other.until; }
  };
  explicit Crowd(std::uint64_t seed, std::uint64_t slot_count = 32) : random(seed), slots(slot_count) {}
  ~Crowd() {
    while (!held.empty()) finish();
    for (auto& entry : entries)
      if (entry->linked()) order.remove(*entry);
  }

  DrrTenant& tenant(std::uint32_t weight = 1) {
    tenants.push_back(std::make_unique<DrrTenant>(weight));
    return *tenants.back();
  }
  DrrEntry& ask(DrrTenant& tenant, std::uint32_t cost) {
    if (spare.empty()) {
      entries.push_back(std::make_unique<DrrEntry>());
      spare.push_back(entries.back().get());
    }
    DrrEntry& entry = *spare.back();
    spare.pop_back();
    entry.cost = cost;
    entry.tenant = &tenant;
    order.add(entry);
    return entry;
  }
  std::uint32_t any_cost() { return 1 + static_cast<std::uint32_t>(random.below(64)); }
  DrrTenant* grant() {
    if (held.size() >= slots) return nullptr;
    DrrEntry* entry = order.take_next(slots);
    if (entry == nullptr) return nullptr;
    held.push({now + 10 + random.below(21), entry->tenant});
    spare.push_back(entry);
    return entry->tenant;
  }
  void finish() {
    DrrTenant& tenant = *held.top().tenant;
    now = held.top().until;
    held.pop();
    tenant.give_back();
    order.returned(tenant);
  }
  // Every tenant has a backlog all the time.
  void run_backlogged(std::uint64_t until) {
    while (now < until) {
      while (DrrTenant* granted = grant()) ask(*granted, any_cost());
      finish();
    }
  }

  Random random;
  std::uint64_t slots;
  std::uint64_t now = 0;
  std::vector<std::unique_ptr<DrrTenant>> tenants;
  std::vector<std::unique_ptr<DrrEntry>> entries;
  std::vector<DrrEntry*> spare;
  DeficitRoundRobin order;
  std::priority_queue<Held, std::vector<Held>, std::greater<>> held;
};

double jain(const std::vector<double>& shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) sum += share, squares += share * share;
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

std::vector<double> served(const Crowd& crowd) {
  std::vector<double> units;
  for (const auto& tenant : crowd.tenants)
    units.push_back(static_cast<double>(tenant->served()) / tenant->weight());
  return units;
}

TEST(DeficitRoundRobin, equal_tenants_get_equal_units_whatever_their_requests_cost_and_how_many_they_send) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Crowd crowd(seed);
    for (int i = 0; i < 8; ++i) {
      DrrTenant& tenant = crowd.tenant();
      for (int n = 0; n < (i == 0 ? 400 : 8); ++n) crowd.ask(tenant, crowd.any_cost());
    }
    crowd.run_backlogged(60'000);
    EXPECT_GE(jain(served(crowd)), 0.99) << seed;
  }
}

TEST(DeficitRoundRobin, units_are_in_proportion_to_the_weights) {
  for (const std::uint64_t slots : {16u, 28u, 32u})
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      Crowd crowd(seed, slots);
      for (const std::uint32_t weight : {1u, 2u, 4u}) {
        DrrTenant& tenant = crowd.tenant(weight);
        for (int n = 0; n < 200; ++n) crowd.ask(tenant, crowd.any_cost());
      }
      crowd.run_backlogged(60'000);
      const std::vector<double> units = served(crowd);
      for (const double each : units) {
        EXPECT_NEAR(each / units[0], 1, 0.1) << slots << " slots, seed " << seed;
      }
    }
}

TEST(DeficitRoundRobin, an_idle_tenant_saves_up_no_credit) {
  Crowd crowd(1);
  DrrTenant& idle = crowd.tenant(50);
  crowd.ask(idle, 1);
  DrrTenant& busy = crowd.tenant();
  crowd.ask(busy, 1);
  EXPECT_EQ(crowd.grant(), &idle);
  EXPECT_EQ(idle.deficit(), 0) << "it had 3,200 units and used one";
}

TEST(DeficitRoundRobin, what_is_charged_afterwards_is_paid_back_and_starves_nobody) {
  Crowd crowd(1, 4000);
  DrrTenant& streams = crowd.tenant();
  DrrTenant& other = crowd.tenant();
  for (int i = 0; i < 4000; ++i) {
    crowd.ask(streams, 1);
    crowd.ask(other, 1);
  }
  streams.charge(10 * 64);
  for (int i = 0; i < 640; ++i) ASSERT_EQ(crowd.grant(), &other) << i;
  streams.charge(1'000'000'000);
  int until_served = 0;
  while (crowd.grant() != &streams) {
    ++until_served;
    crowd.finish();
  }
  EXPECT_LE(until_served, 64 * (DeficitRoundRobin::debt_rounds + 11));
  EXPECT_GE(until_served, 64 * (DeficitRoundRobin::debt_rounds - 1));
}

TEST(DeficitRoundRobin, a_debt_is_forgotten_once_nobody_waits) {
  Crowd crowd(1);
  DrrTenant& one = crowd.tenant();
  DrrTenant& two = crowd.tenant();
  crowd.ask(one, 1);
  one.charge(500);
  crowd.ask(two, 1);
  while (crowd.grant() != nullptr) {
  }
  one.charge(500);
  crowd.ask(one, 1);
  crowd.ask(two, 1);
  EXPECT_EQ(crowd.grant(), &one);
}

TEST(DeficitRoundRobin, a_tenant_alone_holds_at_most_three_quarters_of_the_slots) {
  Crowd crowd(1, 16);
  DrrTenant& greedy = crowd.tenant();
  for (int i = 0; i < 100; ++i) crowd.ask(greedy, 1);
  while (crowd.grant() != nullptr) {
  }
  EXPECT_EQ(greedy.held(), 12u);
  crowd.finish();
  EXPECT_EQ(crowd.grant(), &greedy) << "it stepped aside, and comes back with the slot";
  EXPECT_EQ(crowd.grant(), nullptr);
}

TEST(DeficitRoundRobin, while_another_waits_a_tenant_has_its_weights_share_and_then_more_again) {
  Crowd crowd(1, 16);
  DrrTenant& one = crowd.tenant(1);
  DrrTenant& three = crowd.tenant(3);
  for (int i = 0; i < 50; ++i) {
    crowd.ask(one, 1);
    crowd.ask(three, 1);
  }
  while (crowd.grant() != nullptr) {
  }
  EXPECT_EQ(one.held(), 4u);
  EXPECT_EQ(three.held(), 12u);
  for (auto& entry : crowd.entries)
    if (entry->linked() && entry->tenant == &three) crowd.order.remove(*entry);
  while (!crowd.held.empty()) crowd.finish();
  while (crowd.grant() != nullptr) {
  }
  EXPECT_EQ(one.held(), 12u) << "nobody else waits any more";
}

TEST(DeficitRoundRobin, every_tenant_that_waits_may_hold_a_slot_however_small_its_weight) {
  Crowd crowd(1, 4);
  DrrTenant& small = crowd.tenant(1);
  DrrTenant& large = crowd.tenant(1000);
  for (int i = 0; i < 5000; ++i) crowd.ask(large, 64);
  crowd.ask(small, 64);
  int decisions = 0;
  while (small.served() == 0 && ++decisions < 10) {
    while (crowd.grant() != nullptr) {
    }
    crowd.finish();
  }
  EXPECT_GT(small.served(), 0u);
}

TEST(DeficitRoundRobin, a_request_that_leaves_is_gone_and_its_tenant_with_the_last_of_them) {
  Crowd crowd(1);
  DrrTenant& one = crowd.tenant();
  DrrTenant& two = crowd.tenant();
  DrrEntry& first = crowd.ask(one, 1);
  crowd.ask(one, 2);
  crowd.ask(two, 3);
  crowd.order.remove(first);
  EXPECT_EQ(one.depth(), 1u);
  EXPECT_EQ(crowd.order.tenants(), 2u);
  for (auto& entry : crowd.entries)
    if (entry->linked() && entry->tenant == &one) crowd.order.remove(*entry);
  EXPECT_EQ(crowd.order.tenants(), 1u);
  EXPECT_EQ(crowd.grant(), &two);
  EXPECT_EQ(crowd.order.depth(), 0u);
}

TEST(DeficitRoundRobin, no_tenant_with_a_backlog_starves_under_any_mix_of_weights_costs_and_departures) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Crowd crowd(seed, 1 + seed % 40);
    DrrTenant& watched = crowd.tenant(1);
    for (int i = 0; i < 20; ++i) crowd.tenant(1 + static_cast<std::uint32_t>(crowd.random.below(8)));
    std::uint64_t last_served = 0;
    crowd.ask(watched, crowd.any_cost());
    for (int step = 0; step < 20'000; ++step) {
      DrrTenant& any = *crowd.tenants[crowd.random.below(crowd.tenants.size())];
      if (crowd.order.depth() < 512) crowd.ask(any, crowd.any_cost());
      if (crowd.random.below(8) == 0) any.charge(crowd.random.below(300));
      if (crowd.random.below(3) == 0 && !crowd.held.empty()) crowd.finish();
      DrrTenant* granted = crowd.grant();
      if (granted == nullptr && !crowd.held.empty()) crowd.finish();
      if (granted == &watched) {
        last_served = crowd.now;
        crowd.ask(watched, crowd.any_cost());
      }
      // One round of all others, each in debt as far as it goes, holds it up no longer than this.
      ASSERT_LT(crowd.now - last_served, 2'000'000u / crowd.slots) << "seed " << seed << ", step " << step;
    }
  }
}

TEST(DeficitRoundRobin, a_decision_costs_the_same_for_ten_known_tenants_and_a_hundred_thousand) {
  std::vector<double> looks;
  for (const std::size_t known : {10u, 100'000u}) {
    Crowd crowd(7);
    for (std::size_t i = 0; i < known; ++i) crowd.tenant();
    for (std::size_t i = 0; i < 512; ++i) crowd.ask(*crowd.tenants[i % known], crowd.any_cost());
    std::size_t decisions = 0;
    for (std::size_t next = 0; decisions < 20'000;) {
      while (crowd.grant() != nullptr) {
        ++decisions;
        crowd.ask(*crowd.tenants[++next % known], crowd.any_cost());
      }
      crowd.finish();
    }
    looks.push_back(static_cast<double>(crowd.order.looks()) / static_cast<double>(decisions));
  }
  EXPECT_LE(looks[0], 5) << "tenants looked at for one decision";
  EXPECT_LE(looks[1], looks[0] * 1.5 + 0.5);
}

}  // namespace
}  // namespace cairn
