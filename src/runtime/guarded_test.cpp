#include "runtime/guarded.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/driven_shard.h"
#include "runtime/wait.h"

namespace cairn {
namespace {

enum class Ranks { low = 1, high = 2 };
using Low = Guarded<int, Ranks::low>;
using High = Guarded<int, Ranks::high>;

template <class G, class F>
concept Allows = requires(G& guarded, F f) { guarded.with(f); };

struct Coroutine {
  Task<> operator()(int&) const { co_return; }
};
struct ReturnsAwaitable {
  Sleep operator()(int&) const;
};
struct ReturnsReference {
  int& operator()(int& value) const { return value; }
};
struct ReturnsPointer {
  const int* operator()(int& value) const { return &value; }
};
struct ReturnsValue {
  int operator()(int& value) const { return value; }
};
static_assert(!Allows<Low, Coroutine>);
static_assert(!Allows<Low, ReturnsAwaitable>);
static_assert(!Allows<Low, ReturnsReference>);
static_assert(!Allows<Low, ReturnsPointer>);
static_assert(Allows<Low, ReturnsValue>);
static_assert(!Allows<const Low, ReturnsValue>);  // a const one lets nobody change it

TEST(Guarded, ranks_are_recorded_while_held_and_only_then) {
  DrivenShard d;
  Low low(1);
  High high(2);
  const int sum = low.with([&](int& a) {
    EXPECT_EQ(d.shard.held_locks, 0b010u);
    return high.with([&](int& b) {
      EXPECT_EQ(d.shard.held_locks, 0b110u);
      return a + b;
    });
  });
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(d.shard.held_locks, 0u);
}

TEST(Guarded, an_exception_releases) {
  DrivenShard d;
  Low low(1);
  EXPECT_THROW(low.with([](int&) { throw std::runtime_error("x"); }), std::runtime_error);
  EXPECT_EQ(d.shard.held_locks, 0u);
  EXPECT_EQ(low.with([](int& value) { return value; }), 1);
}

TEST(GuardedDeathTest, a_lower_or_equal_rank_is_refused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  DrivenShard d;
  Low low, other;
  High high;
  EXPECT_DEATH(high.with([&](int&) { low.with([](int&) {}); }), "CHECK failed");
  EXPECT_DEATH(low.with([&](int&) { other.with([](int&) {}); }), "CHECK failed");
}

TEST(Guarded, threads_exclude_each_other) {
  Low low(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2'000; ++i) low.with([](int& value) { ++value; });
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(low.with([](int& value) { return value; }), 8'000);
}

TEST(Guarded, a_thread_waits_until_another_makes_it_so) {
  Low low(0);
  std::condition_variable changed;
  std::thread other([&] {
    low.with([](int& value) { value = 5; });
    changed.notify_all();
  });
  EXPECT_EQ(
      low.wait(changed, [](int& value) { return value == 5; }, [](int& value) { return value + 1; }), 6);
  other.join();
}

}  // namespace
}  // namespace cairn
