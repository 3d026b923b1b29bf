#include "services/index/wait_estimate.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace cairn::index {
namespace {

constexpr Duration ms(std::int64_t count) { return Duration::millis(count); }

// [WE-1]
TEST(WaitEstimate, without_a_mean_nobody_is_refused) {
  EXPECT_TRUE(WaitEstimate().fits(1'000'000, 1, Duration{}));
}

TEST(WaitEstimate, a_job_that_would_wait_longer_than_it_has_is_refused) {
  WaitEstimate estimate;
  estimate.count(ms(40));
  EXPECT_EQ(estimate.expected(128, 64), ms(80));
  EXPECT_TRUE(estimate.fits(128, 64, ms(80)));
  EXPECT_FALSE(estimate.fits(129, 64, ms(80)));
  EXPECT_TRUE(estimate.fits(0, 64, Duration{}));
  EXPECT_FALSE(estimate.fits(1, 64, Duration{}));
}

TEST(WaitEstimate, without_a_slot_no_deadline_is_long_enough) {
  WaitEstimate estimate;
  estimate.count(ms(1));
  EXPECT_FALSE(estimate.fits(1, 0, Duration::seconds(3600)));
  EXPECT_TRUE(estimate.fits(0, 0, Duration{}));
}

TEST(WaitEstimate, the_mean_follows_what_jobs_take) {
  WaitEstimate estimate;
  for (int i = 0; i < 40; ++i) estimate.count(ms(10));
  EXPECT_EQ(estimate.mean(), ms(10));
  estimate.count(ms(90));
  EXPECT_EQ(estimate.mean(), ms(20));
  for (int i = 0; i < 100; ++i) estimate.count(ms(90));
  EXPECT_GE(estimate.mean(), ms(89));
  estimate.count(Duration::nanos(-1));
  EXPECT_GE(estimate.mean(), ms(89));
}

TEST(WaitEstimate, the_largest_numbers_do_not_overflow) {
  WaitEstimate estimate;
  estimate.count(Duration{INT64_MAX});
  estimate.count(Duration{0});
  EXPECT_FALSE(estimate.fits(UINT64_MAX, 1, Duration{INT64_MAX - 1}));
}

// [WE-2]
RC_GTEST_PROP(WaitEstimateOf, any_jobs_lies_between_the_shortest_and_the_longest, ()) {
  const auto times = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 10'000'000'000)));
  WaitEstimate estimate;
  for (const std::int64_t time : times) {
    estimate.count(Duration::nanos(time));
    RC_ASSERT(estimate.mean().ns >= *std::ranges::min_element(times));
    RC_ASSERT(estimate.mean().ns <= *std::ranges::max_element(times));
  }
}

}  // namespace
}  // namespace cairn::index
