#include "services/gateway/history.h"

#include <gtest/gtest.h>

namespace cairn::gateway {
namespace {

TEST(History, fifteen_minutes_are_kept_and_the_newest_comes_first) {
  Samples samples;
  EXPECT_TRUE(samples.newest(60).empty());
  for (std::uint64_t i = 1; i <= 901; ++i) samples.add({.waiting = i});
  const std::vector<Sample> all = samples.newest(10'000);
  ASSERT_EQ(all.size(), 900u);
  EXPECT_EQ(all.front().waiting, 901u);
  EXPECT_EQ(all.back().waiting, 2u);
  EXPECT_EQ(samples.newest(60).size(), 60u);
}

}  // namespace
}  // namespace cairn::gateway
