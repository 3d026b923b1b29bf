#include "runtime/permits.h"

#include <gtest/gtest.h>

#include <latch>
#include <optional>
#include <thread>
#include <vector>

namespace cairn {
namespace {

TEST(Permits, no_more_than_the_limit_and_all_come_back) {
  Permits permits(2);
  {
    auto a = permits.try_hold();
    auto b = permits.try_hold();
    ASSERT_TRUE(a.has_value() && b.has_value());
    EXPECT_EQ(permits.try_hold().error().code, ErrorCode::busy);
    PermitHold moved = std::move(*a);
    EXPECT_TRUE(moved);
    EXPECT_EQ(permits.taken(), 2u);
  }
  EXPECT_EQ(permits.taken(), 0u);
}

TEST(Permits, a_lowered_limit_evicts_nobody_and_admits_nobody) {
  Permits permits(3);
  std::optional<PermitHold> a = *permits.try_hold(), b = *permits.try_hold();
  permits.set_limit(1);
  EXPECT_EQ(permits.taken(), 2u);
  EXPECT_FALSE(permits.try_take());
  a.reset();
  EXPECT_FALSE(permits.try_take());
  b.reset();
  EXPECT_TRUE(permits.try_take());
  permits.give();
  permits.set_limit(2);
  EXPECT_TRUE(permits.try_take());
  EXPECT_TRUE(permits.try_take());
  permits.give();
  permits.give();
}

TEST(Permits, threads_take_exactly_the_limit) {
  constexpr int threads_count = 4, each = 20'000, limit = 60'000;
  Permits permits(limit);
  std::latch together(threads_count);
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_count; ++t)
    threads.emplace_back([&] {
      together.arrive_and_wait();
      for (int i = 0; i < each; ++i)
        if (permits.try_take()) ++admitted;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(admitted.load(), limit);
  EXPECT_EQ(permits.taken(), static_cast<std::uint64_t>(limit));
  while (permits.taken() > 0) permits.give();
}

TEST(Permits, threads_that_come_and_go_leave_none_taken) {
  Permits permits(2);
  std::latch together(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      together.arrive_and_wait();
      for (int i = 0; i < 5'000; ++i) {
        auto hold = permits.try_hold();
        EXPECT_LE(permits.taken(), 2u);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(permits.taken(), 0u);
}

}  // namespace
}  // namespace cairn
