#include "services/gateway/pressure.h"

#include <gtest/gtest.h>

#include "services/gateway/shut_ways.h"

namespace cairn::gateway {
namespace {

using Level = Pressure::Level;
constexpr Instant begin{1'000'000'000'000};
Instant at(int seconds) { return begin + Duration::seconds(seconds); }

TEST(Pressure, changes_are_shed_first_then_expensive_reads_then_all) {
  Pressure pressure;
  EXPECT_FALSE(pressure.sheds(Kind::change, true));
  pressure.sample({.memory = 0.85}, at(0));
  EXPECT_TRUE(pressure.sheds(Kind::change, false));
  EXPECT_FALSE(pressure.sheds(Kind::expensive_read, true));
  pressure.sample({.memory = 0.95}, at(1));
  EXPECT_TRUE(pressure.sheds(Kind::expensive_read, false));
  EXPECT_FALSE(pressure.sheds(Kind::read, true));
  pressure.sample({.memory = 1}, at(2));
  EXPECT_TRUE(pressure.sheds(Kind::read, false));
}

TEST(Pressure, a_deep_queue_sheds_only_from_tenants_above_their_share) {
  Pressure pressure;
  pressure.sample({.queue = 0.99}, at(0));
  EXPECT_TRUE(pressure.sheds(Kind::change, true));
  EXPECT_TRUE(pressure.sheds(Kind::expensive_read, true));
  EXPECT_FALSE(pressure.sheds(Kind::change, false));
  EXPECT_FALSE(pressure.sheds(Kind::read, true)) << "a queue alone never sheds all";
}

TEST(Pressure, it_falls_by_one_level_at_a_time_and_only_after_a_calm) {
  Pressure pressure;
  pressure.sample({.memory = 1}, at(0));
  for (int second = 1; second < 6; ++second) {
    pressure.sample({}, at(second));
    EXPECT_EQ(pressure.level(), Level::all) << second;
  }
  pressure.sample({}, at(6));
  EXPECT_EQ(pressure.level(), Level::expensive_reads);
  for (int second = 7; second < 12; ++second) pressure.sample({}, at(second));
  EXPECT_EQ(pressure.level(), Level::expensive_reads);
  pressure.sample({}, at(12));
  EXPECT_EQ(pressure.level(), Level::changes);
}

TEST(Pressure, a_load_about_the_border_does_not_make_it_flap) {
  Pressure pressure;
  int changes = 0;
  Level last = pressure.level();
  for (int second = 0; second < 600; ++second) {
    pressure.sample({.memory = second % 7 == 0 ? 0.86 : 0.84}, at(second));
    if (std::exchange(last, pressure.level()) != last) ++changes;
  }
  EXPECT_EQ(changes, 1);
}

TEST(ShutWays, those_of_all_shards_count_while_their_cooldown_runs) {
  ShutWays shut(2);
  EXPECT_EQ(shut.part(at(0)), 0);
  shut.tell(0, 0, Instant{});
  shut.tell(1, 0, Instant{});
  EXPECT_EQ(shut.part(at(0)), 0);
  shut.tell(1, 0, at(10));
  EXPECT_EQ(shut.part(at(9)), 0.5);
  shut.tell(0, 0, at(5));
  EXPECT_EQ(shut.part(at(4)), 1);
  EXPECT_EQ(shut.part(at(5)), 0.5);
  EXPECT_EQ(shut.part(at(10)), 0);
}

TEST(Pressure, without_any_upstream_changes_are_shed) {
  Pressure pressure;
  pressure.sample({.upstreams = 0.5}, at(0));
  EXPECT_EQ(pressure.level(), Level::none);
  pressure.sample({.upstreams = 1}, at(1));
  EXPECT_EQ(pressure.level(), Level::changes);
}

}  // namespace
}  // namespace cairn::gateway
