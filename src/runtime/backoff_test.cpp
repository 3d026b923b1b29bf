#include "runtime/backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace cairn {
namespace {

TEST(Backoff, waits_double_to_the_cap_within_their_window) {
  Random random(7);
  Backoff backoff({Duration::millis(100), Duration::millis(500), 0});
  for (std::int64_t window : {100, 200, 400, 500, 500, 500}) {
    const Duration wait = *backoff.next(random);
    EXPECT_GE(wait, Duration::millis(window) / 2);
    EXPECT_LE(wait, Duration::millis(window));
  }
  EXPECT_EQ(backoff.failed(), 6u);
  backoff.reset();
  EXPECT_LE(*backoff.next(random), Duration::millis(100));
}

TEST(Backoff, three_tries_have_two_waits) {
  Random random(1);
  Backoff backoff({Duration::millis(100), Duration::seconds(2), 3});
  EXPECT_TRUE(backoff.next(random).has_value());
  EXPECT_TRUE(backoff.next(random).has_value());
  EXPECT_FALSE(backoff.next(random).has_value());
}

TEST(Backoff, the_same_random_gives_the_same_waits_and_another_gives_others) {
  const auto waits = [](std::uint64_t seed) {
    Random random(seed);
    Backoff backoff({Duration::millis(100), Duration::seconds(5), 0});
    std::vector<std::int64_t> out;
    for (int i = 0; i < 8; ++i) out.push_back(backoff.next(random)->ns);
    return out;
  };
  EXPECT_EQ(waits(3), waits(3));
  EXPECT_NE(waits(3), waits(4));
}

}  // namespace
}  // namespace cairn
