#include "serve/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config/load.h"
#include "config/problem.h"
#include "serve/shared_rows.h"

namespace cairn::serve {
namespace {

constexpr SharedRows shared{.work = 300};
constexpr QueueDeclaration own[] = {
    {.name = "heads",
     .kind = QueueKind::broadcast,
     .capacity = 64,
     .producers = {"committer"},
     .consumers = {"connection"},
     .policy = OverflowPolicy::drop_oldest,
     .metric = "bus_lagged_total",
     .key = "bus.channel_bound"},
    {.name = "orders",
     .capacity = 8,
     .producers = {"worker"},
     .consumers = {"committer"},
     .metric = "queue_depth"},
};
constexpr auto queues = join(shared_queues(shared), own);
constexpr ServiceDeclaration declaration{
    .name = "shop", .purpose = "sells", .owner = "tests", .last_reviewed = "2026-11-18", .queues = queues};

struct Configured {
  explicit Configured(std::vector<config::Setting> settings)
      : keys(config::declare_server_keys(schema,
                                         {.queues = queue_sizes(declaration), .pools = pool_sizes()})) {
    schema.add<std::int64_t>({.name = "bus.channel_bound", .default_value = "64", .doc = "Heads."});
    config::Sources sources;
    sources.settings = std::move(settings);
    auto loaded = config::load(schema, sources);
    EXPECT_TRUE(loaded) << (loaded ? "" : config::format_problems(loaded.error()));
    if (loaded) snapshot = *loaded;
  }
  std::uint64_t capacity(std::string_view queue) const {
    return queue_capacity(declaration, *snapshot, keys, queue);
  }
  config::Schema schema;
  config::ServerKeys keys;
  config::SnapshotPtr snapshot;
};

TEST(Sizes, a_queue_has_its_declared_capacity_unless_its_key_says_otherwise) {
  const Configured plain({});
  EXPECT_EQ(plain.capacity("work"), 300u);
  EXPECT_EQ(plain.capacity("orders"), 8u);
  EXPECT_EQ(plain.capacity("heads"), 64u);
  const Configured set({{"queues.orders", "3"}, {"work_tx", "7"}, {"bus.channel_bound", "1"}});
  EXPECT_EQ(set.capacity("orders"), 3u);
  EXPECT_EQ(set.capacity("work"), 7u);
  EXPECT_EQ(set.capacity("heads"), 1u);
}

TEST(Sizes, the_rows_that_are_shown_have_the_capacities_that_were_configured) {
  const Configured set({{"queues.orders", "3"}});
  const auto rows = configured_queues(declaration, *set.snapshot, set.keys);
  ASSERT_EQ(rows.size(), std::size(queues));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].name, queues[i].name);
    EXPECT_EQ(rows[i].capacity, rows[i].name == "orders" ? 3u : queues[i].capacity) << rows[i].name;
  }
}

TEST(Sizes, what_is_fixed_has_no_key) {
  std::vector<std::string> keys;
  for (const config::Sized& queue : queue_sizes(declaration)) keys.push_back(queue.name);
  EXPECT_THAT(keys, testing::ElementsAre("work", "orders"));
}

TEST(Sizes, a_lane_has_the_threads_that_were_configured) {
  const Configured set({{"pools.read", "5"}});
  const LaneSizes sizes = configured_lanes(*set.snapshot, set.keys.process);
  for (std::size_t i = 0; i < lane_count; ++i) {
    EXPECT_EQ(sizes[i].threads, static_cast<Lane>(i) == Lane::read ? 5u : lane_declarations[i].threads);
    EXPECT_EQ(sizes[i].queue, lane_declarations[i].queue);
  }
}

}  // namespace
}  // namespace cairn::serve
