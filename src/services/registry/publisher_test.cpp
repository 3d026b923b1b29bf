#include "services/registry/publisher.h"

#include <gtest/gtest.h>

#include "runtime/wait.h"
#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

Task<Result<>> note(std::vector<std::uint64_t>* told, Head head) {
  told->push_back(head.version);
  co_return Result<>{};
}

// Stuck with the first one until somebody lets it go.
Task<Result<>> get_stuck(Call call, std::vector<std::uint64_t>* told, WaitList* stuck, Head head) {
  told->push_back(head.version);
  if (told->size() == 1) CO_TRY_VOID(co_await ListWait(call, *stuck, "the bus"));
  co_return Result<>{};
}

TEST(Publisher, every_version_is_told_in_order) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  std::vector<std::uint64_t> told;
  PublisherState state;
  Scope scope(place.node.shard(), place.call());
  scope.spawn("publisher",
              publish_heads(
                  scope.call(), &place.port(), [&told](Call, Head head) { return note(&told, head); },
                  [](std::uint64_t) { ADD_FAILURE() << "nothing was missed"; }, &state));
  for (unsigned i = 0; i < 5; ++i) ASSERT_TRUE(place.advance(place.with_regions({i})));
  ASSERT_TRUE(place.world.run_until([&] { return told.size() == 5; }));
  EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  scope.cancel(StopReason::draining);
  ASSERT_TRUE(place.world.run_until([&] { return scope.empty(); }));
}

// [RH-6]
TEST(Publisher, commits_go_on_while_the_publisher_is_stalled_and_its_lag_is_counted) {
  SimulatedRegistry place;
  place.options.channel_bound = 4;
  ASSERT_TRUE(place.open());
  std::vector<std::uint64_t> told;
  std::uint64_t missed = 0;
  PublisherState state;
  WaitList stuck;
  Scope scope(place.node.shard(), place.call());
  scope.spawn("publisher", publish_heads(
                               scope.call(), &place.port(),
                               [&](Call call, Head head) { return get_stuck(call, &told, &stuck, head); },
                               [&missed](std::uint64_t count) { missed += count; }, &state));
  ASSERT_TRUE(place.advance(place.with_regions({0})));
  ASSERT_TRUE(place.world.run_until([&] { return !stuck.empty(); }));
  for (unsigned i = 1; i <= 10; ++i) ASSERT_TRUE(place.advance(place.with_regions({i})));
  EXPECT_EQ(place.head().version, 11u);
  EXPECT_EQ(told.size(), 1u);
  place.world.run_for(PublisherState::patience + Duration::millis(1));
  EXPECT_FALSE(state.keeps_up(place.world.now()));
  ASSERT_TRUE(place.world.run_until([&] { return place.port().told().version == 11; }));
  {
    ShardScope here(place.node.shard());
    wake(stuck.front());
  }
  ASSERT_TRUE(place.world.run_until([&] { return !told.empty() && told.back() == 11; }));
  EXPECT_EQ(missed, 6u);
  EXPECT_TRUE(state.keeps_up(place.world.now()));
  EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 8, 9, 10, 11}));
  scope.cancel(StopReason::draining);
  ASSERT_TRUE(place.world.run_until([&] { return scope.empty(); }));
}

}  // namespace
}  // namespace cairn::registry
