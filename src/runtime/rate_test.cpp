#include "runtime/rate.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cairn {
namespace {

constexpr Instant at(Duration d) { return Instant{} + d; }

TEST(Rate, the_burst_is_the_rate_then_one_an_interval) {
  RateLimiter limiter(10);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limiter.try_take(at({})).taken) << i;
  const RateVerdict refused = limiter.try_take(at({}));
  EXPECT_FALSE(refused.taken);
  EXPECT_EQ(refused.retry_after, Duration::millis(100));
  EXPECT_FALSE(limiter.try_take(at(Duration::millis(100) - Duration::nanos(1))));
  EXPECT_TRUE(limiter.try_take(at(Duration::millis(100))));
  EXPECT_FALSE(limiter.try_take(at(Duration::millis(100))));
}

TEST(Rate, a_refusal_names_the_exact_time_and_costs_nothing) {
  RateLimiter limiter(3);  // an interval that is not a whole number
  while (limiter.try_take(at({}))) {
  }
  const Duration wait = limiter.try_take(at({})).retry_after;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(limiter.try_take(at({})).retry_after, wait);
  EXPECT_FALSE(limiter.try_take(at(wait - Duration::nanos(1))));
  EXPECT_TRUE(limiter.try_take(at(wait)));
}

TEST(Rate, over_time_never_more_than_burst_and_rate) {
  RateLimiter limiter(7);
  std::uint64_t taken = 0;
  for (std::int64_t ms = 0; ms <= 10'000; ms += 3)
    while (limiter.try_take(at(Duration::millis(ms)))) ++taken;
  EXPECT_LE(taken, 7u + 70u);
  EXPECT_GE(taken, 7u + 69u);
}

TEST(Rate, rounding_never_allows_more) {
  RateLimiter limiter(3);
  int taken = 0;
  while (limiter.try_take(at({}))) ++taken;
  // A nanosecond short of a second pays for two more, not three.
  while (limiter.try_take(at(Duration::seconds(1) - Duration::nanos(1)))) ++taken;
  EXPECT_EQ(taken, 3 + 2);
}

TEST(Rate, a_new_rate_holds_from_the_next_take) {
  RateLimiter limiter(1);
  EXPECT_TRUE(limiter.try_take(at({})));
  EXPECT_FALSE(limiter.try_take(at({})));
  limiter.set_rate(1'000'000);
  const Instant later = at(Duration::seconds(1));
  EXPECT_TRUE(limiter.try_take(later));
  EXPECT_TRUE(limiter.try_take(later));
}

TEST(Rate, threads_share_one_budget) {
  RateLimiter limiter(1'000);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1'000; ++i)
        if (limiter.try_take(Instant{})) ++taken;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(taken.load(), 1'000);
}

}  // namespace
}  // namespace cairn
