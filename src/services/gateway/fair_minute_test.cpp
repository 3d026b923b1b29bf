// A minute of eight tenants in simulated time, of which one sends a hundred times its share, or slow
// requests, or thousands at once, with an upstream that takes 10 to 30 ms.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/fair_process.h"
#include "runtime/random.h"

namespace cairn::gateway {
namespace {

using Place = DrivenPlace;

class FairMinute : public testing::Test, protected FairProcess {
 protected:
  ~FairMinute() override { finish(); }

  static constexpr Duration minute = Duration::seconds(60);
  struct Crowded {
    DrrTenant turns;
    std::vector<std::int64_t> latencies;  // of requests that were answered
    std::uint64_t refused = 0;
    std::int64_t slowness = 1;  // of its upstream
    explicit Crowded(std::uint32_t weight) : turns(weight) {}
  };
  void open_process() {
    open(16);  // 32 slots
    hire(near);
    hire(far);
    start_scheduler();
    settle();
  }
  Crowded& tenant(std::uint32_t weight = 1) {
    crowd.push_back(std::make_unique<Crowded>(weight));
    return *crowd.back();
  }
  Place& any_place() { return random.below(2) == 0 ? near : far; }
  Duration upstream(const Crowded& of) {
    return Duration::micros(of.slowness * (10'000 + static_cast<std::int64_t>(random.below(20'001))));
  }

  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives its tasks
  Task<bool> request(Call call, Place& place, Crowded& tenant, std::uint32_t cost, Duration takes) {
    const Instant begun = place.shard.now();
    auto turn =
        co_await place.turns->ask(call.within(Duration::seconds(5)), {.cost = cost, .tenant = &tenant.turns});
    if (turn) (void)co_await sleep_for(call, takes);
    if (turn)
      tenant.latencies.push_back((place.shard.now() - begun).ns);
    else
      ++tenant.refused;
    co_return turn.has_value();
  }
  // One of many connections of a tenant that sends again as soon as it is answered.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives its tasks
  Task<> busy(Call call, Place& place, Crowded& tenant, Instant until) {
    while (place.shard.now() < until && !call.stopped()) {
      const auto cost = 1 + static_cast<std::uint32_t>(random.below(8));
      const Duration takes = upstream(tenant);
      // One that was refused comes again soon: it is the flood.
      if (!co_await request(call, place, tenant, cost, takes)) (void)co_await sleep_for(call, 40_ms);
    }
  }
  // Requests at random times.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives its tasks
  Task<> now_and_then(Call call, Place& place, Crowded& tenant, std::uint64_t per_second, Instant until) {
    while (place.shard.now() < until && !call.stopped()) {
      const auto gap = static_cast<std::int64_t>(random.below(2'000'000'000 / per_second));
      (void)co_await sleep_for(call, Duration::nanos(gap));
      place.scope.spawn("one", one(place.scope.call(), place, tenant, upstream(tenant)));
    }
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives its tasks
  Task<> one(Call call, Place& place, Crowded& tenant, Duration takes) {
    (void)co_await request(call, place, tenant, 1, takes);
  }
  void crowd_in(Crowded& tenant, int connections, Instant until) {
    for (int i = 0; i < connections; ++i) {
      Place& place = any_place();
      ShardScope here(place.shard);
      place.scope.spawn("busy", busy(place.scope.call(), place, tenant, until));
    }
  }
  void come(Crowded& tenant, std::uint64_t per_second, Instant until) {
    Place& place = any_place();
    ShardScope here(place.shard);
    place.scope.spawn("light", now_and_then(place.scope.call(), place, tenant, per_second, until));
  }
  static double p99(std::vector<std::int64_t> of) {
    std::ranges::sort(of);
    return static_cast<double>(of[of.size() * 99 / 100]);
  }
  // Seven of eight tenants send what they always do.
  void others_come(Duration span) {
    for (std::size_t i = 1; i < 8; ++i) come(*crowd[i], 60, near.shard.now() + span);
  }
  // A minute without the first tenant: the 99th percentile of the others.
  double be_quiet() {
    open_process();
    for (int i = 0; i < 8; ++i) tenant();
    others_come(minute);
    run_for(minute);
    std::vector<std::int64_t> quiet;
    for (auto& each : crowd) quiet.insert(quiet.end(), each->latencies.begin(), each->latencies.end());
    for (auto& each : crowd) each->latencies.clear();
    EXPECT_GT(quiet.size(), 20'000u);
    return p99(std::move(quiet));
  }
  // Of the one that waits longest. None of them is refused.
  double p99_of_others() {
    double longest = 0;
    for (std::size_t i = 1; i < 8; ++i) {
      EXPECT_EQ(crowd[i]->refused, 0u);
      EXPECT_GT(crowd[i]->latencies.size(), 1'000u);
      longest = std::max(longest, p99(crowd[i]->latencies));
    }
    return longest;
  }

  Random random{7};
  std::vector<std::unique_ptr<Crowded>> crowd;
};

TEST_F(FairMinute, the_units_of_eight_tenants_are_equal_though_one_sends_a_hundred_times_its_share) {
  open_process();
  const Instant end = near.shard.now() + minute;
  for (int i = 0; i < 8; ++i) crowd_in(tenant(), i == 0 ? 800 : 8, end);
  run_for(minute);
  double sum = 0, squares = 0;
  for (const auto& each : crowd) {
    const auto units = static_cast<double>(each->turns.served());
    sum += units;
    squares += units * units;
  }
  EXPECT_GE(sum * sum / (8 * squares), 0.99);
  EXPECT_GT(crowd[0]->refused, 0u);
  for (std::size_t i = 1; i < 8; ++i)
    EXPECT_EQ(crowd[i]->refused, 0u) << "those within their share are let in";
}

TEST_F(FairMinute, weights_of_one_two_and_four_get_units_in_that_proportion) {
  open_process();
  const Instant end = near.shard.now() + minute;
  for (const std::uint32_t weight : {1u, 2u, 4u}) crowd_in(tenant(weight), 60, end);
  run_for(minute);
  const auto unit = static_cast<double>(crowd[0]->turns.served());
  EXPECT_NEAR(static_cast<double>(crowd[1]->turns.served()) / unit, 2, 0.2);
  EXPECT_NEAR(static_cast<double>(crowd[2]->turns.served()) / unit, 4, 0.4);
}

TEST_F(FairMinute, a_flood_makes_the_others_wait_hardly_longer_than_in_quiet_times) {
  const double quiet = be_quiet();
  crowd_in(*crowd[0], 800, near.shard.now() + minute);
  others_come(minute);
  run_for(minute);
  EXPECT_LE(p99_of_others(), 1.2 * quiet);
}

TEST_F(FairMinute, a_flood_of_slow_requests_makes_nobody_wait_half_as_long_again) {
  const double quiet = be_quiet();
  crowd[0]->slowness = 10;
  crowd_in(*crowd[0], 800, near.shard.now() + minute);
  others_come(minute);
  run_for(minute);
  EXPECT_LE(p99_of_others(), 1.5 * quiet);
}

TEST_F(FairMinute, ten_thousand_requests_at_once_make_nobody_wait_twice_as_long) {
  const double quiet = be_quiet();
  constexpr int times = 20;
  constexpr Duration apart = Duration::seconds(1);  // the next ones come when hardly one of these is left
  others_come(Duration::nanos(times * apart.ns));
  for (int i = 0; i < times; ++i) {
    for (int request = 0; request < 10'000; ++request) {
      Place& place = any_place();
      ShardScope here(place.shard);
      place.scope.spawn("one", one(place.scope.call(), place, *crowd[0], upstream(*crowd[0])));
    }
    run_for(apart);
  }
  EXPECT_GT(crowd[0]->refused, 100'000u);
  EXPECT_GT(crowd[0]->latencies.size(), 2'000u);
  EXPECT_LE(p99_of_others(), 2 * quiet);
}

}  // namespace
}  // namespace cairn::gateway
