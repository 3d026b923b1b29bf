#include "serve/shares.h"

#include <gtest/gtest.h>

namespace cairn::serve {
namespace {

constexpr Shares::Address flood{0, 1}, quiet{0, 2};
constexpr Instant start = Instant{} + Duration::seconds(100);

// Two addresses that do not meet in one slot.
struct Two : testing::Test {
  Two() { EXPECT_NE(shares.slot_of(flood), shares.slot_of(quiet)); }
  // As many as go in.
  int enter_all(const Shares::Address& address, Instant now = start) {
    int entered = 0;
    while (shares.try_enter(shares.ask(address, now), places)) ++entered;
    return entered;
  }
  int take_all(const Shares::Address& address, Instant now = start) {
    int taken = 0;
    while (shares.try_take(shares.ask(address, now), rate, now)) ++taken;
    return taken;
  }
  void leave_all(const Shares::Address& address, int count) {
    for (int i = 0; i < count; ++i) shares.leave(shares.slot_of(address), places);
  }

  Shares shares;
  Permits places{64};
  RateLimiter rate{80};
};

TEST_F(Two, an_address_alone_has_every_place) {
  EXPECT_EQ(enter_all(flood), 64);
  leave_all(flood, 64);
}

TEST_F(Two, while_another_asks_an_address_has_half_of_the_places) {
  (void)shares.ask(quiet, start);
  EXPECT_EQ(enter_all(flood), 32);
  EXPECT_EQ(enter_all(quiet), 32);
  leave_all(flood, 32);
  leave_all(quiet, 32);
}

TEST_F(Two, a_second_after_the_other_asked_the_half_binds_no_more) {
  (void)shares.ask(quiet, start);
  EXPECT_EQ(enter_all(flood, start + Shares::contest), 32);
  EXPECT_EQ(enter_all(flood, start + Shares::contest + Duration::millis(1)), 32);
  leave_all(flood, 64);
}

TEST_F(Two, who_comes_when_every_place_is_taken_finds_an_eighth_more) {
  EXPECT_EQ(enter_all(flood), 64);
  EXPECT_EQ(enter_all(quiet), 8);
  EXPECT_EQ(enter_all(flood), 0);
  leave_all(flood, 64);
  leave_all(quiet, 8);
  EXPECT_EQ(places.taken(), 0u);
}

TEST_F(Two, an_address_alone_has_all_of_the_rate) {
  EXPECT_EQ(take_all(flood), 80);
  EXPECT_EQ(take_all(flood, start + Duration::seconds(1)), 80);
}

TEST_F(Two, while_another_asks_an_address_has_half_of_the_rate) {
  (void)shares.ask(quiet, start);
  EXPECT_EQ(take_all(flood), 40);
  EXPECT_EQ(take_all(quiet), 40);
}

TEST_F(Two, who_comes_into_a_flood_is_served_at_once_and_then_has_its_half) {
  EXPECT_EQ(take_all(flood), 80);
  EXPECT_EQ(take_all(quiet), 10);  // an eighth, taken ahead
  int flooded = 0, served = 0;
  for (int ms = 1; ms <= 2000; ++ms) {
    const Instant now = start + Duration::millis(ms);
    flooded += take_all(flood, now);
    if (ms % 25 == 0) served += shares.try_take(shares.ask(quiet, now), rate, now) ? 1 : 0;
  }
  EXPECT_EQ(served, 80);  // all that it asked for, which is its half
  EXPECT_LE(flooded, 80);
  EXPECT_GE(flooded, 60);
}

TEST_F(Two, what_flows_over_time_is_the_rate_whoever_asks) {
  std::uint64_t taken = 0;
  for (int ms = 0; ms <= 10'000; ++ms)
    taken += static_cast<std::uint64_t>(take_all(ms % 2 == 0 ? flood : quiet, start + Duration::millis(ms)));
  EXPECT_LE(taken, 80u + 10u + 800u);
  EXPECT_GE(taken, 800u);
}

TEST_F(Two, who_has_no_share_is_bounded_by_the_whole_alone) {
  (void)shares.ask(quiet, start);
  int taken = 0;
  while (shares.try_take({}, rate, start)) ++taken;
  EXPECT_EQ(taken, 80);
}

TEST(Shares, a_limit_of_one_is_one) {
  Shares shares;
  Permits places(1);
  RateLimiter rate(1);
  (void)shares.ask(quiet, start);
  const Shares::Asker asker = shares.ask(flood, start);
  EXPECT_TRUE(shares.try_enter(asker, places));
  EXPECT_FALSE(shares.try_enter(asker, places));
  EXPECT_TRUE(shares.try_take(asker, rate, start));
  EXPECT_FALSE(shares.try_take(asker, rate, start));
  shares.leave(asker.slot, places);
}

}  // namespace
}  // namespace cairn::serve
