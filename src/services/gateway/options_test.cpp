// What the gateway reads from its configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "services/gateway/service.h"

namespace cairn::gateway {
namespace {

using testing::HasSubstr;

struct Read {
  explicit Read(std::vector<std::pair<std::string, std::string>> settings) : keys(declare_keys(schema)) {
    config::Sources sources;
    for (const auto& [key, value] : settings) sources.settings.push_back({key, value});
    auto read = config::load(schema, sources);
    if (read)
      snapshot = *read;
    else
      problems = config::format_problems(read.error());
  }
  FairnessOptions options(std::size_t cores) const { return read_options(*snapshot, keys, "", cores); }

  config::Schema schema;
  Keys keys;
  config::SnapshotPtr snapshot;
  std::string problems;
};

TEST(Options, there_is_a_worker_for_each_core_and_at_most_eight) {
  const Read read({});
  EXPECT_EQ(read.options(1).workers, 1u);
  EXPECT_EQ(read.options(8).workers, 8u);
  EXPECT_EQ(read.options(64).workers, 8u);
  EXPECT_EQ(Read({{"pools.workers", "12"}}).options(1).workers, 12u);
}

TEST(Options, each_key_reaches_its_option) {
  const FairnessOptions options = Read({{"drr.enabled", "false"},
                                        {"drr.default_quantum", "3"},
                                        {"drr.tenant_quanta", "alice=2,bob=1024"},
                                        {"pools.worker_slots", "5"},
                                        {"queues.sched", "7"},
                                        {"server.memory_bytes", "2GiB"},
                                        {"quota.rps", "9"},
                                        {"quota.bytes_per_day", "10KiB"},
                                        {"quota.tenants", "alice=50/1MiB"}})
                                      .options(1);
  EXPECT_FALSE(options.drr_enabled);
  EXPECT_EQ(options.worker_slots, 5u);
  EXPECT_EQ(options.sched, 7u);
  EXPECT_EQ(options.memory_bytes, std::uint64_t{2} << 30);
  const TenantRules& rules = options.rules;
  EXPECT_EQ(rules.default_weight, 3u);
  EXPECT_EQ(rules.default_quota.rps, 9u);
  EXPECT_EQ(rules.default_quota.bytes_per_day, 10240u);
  ASSERT_EQ(rules.named.size(), 2u);
  EXPECT_EQ(rules.named[0].name, "alice");
  EXPECT_EQ(rules.named[0].weight, 2u);
  ASSERT_TRUE(rules.named[0].quota.has_value());
  EXPECT_EQ(rules.named[0].quota->rps, 50u);
  EXPECT_EQ(rules.named[0].quota->bytes_per_day, std::uint64_t{1} << 20);
  EXPECT_EQ(rules.named[1].weight, 1024u);
  EXPECT_FALSE(rules.named[1].quota.has_value());
}

TEST(Options, what_is_no_weight_or_quota_is_refused_with_the_form_that_is) {
  for (const char* text : {"alice", "alice=", "=2", "alice=0", "alice=1025", "alice=-1", "alice=1.5",
                           "alice=two", "alice=1,bob", "alice=1,alice=2"})
    EXPECT_THAT(Read({{"drr.tenant_quanta", text}}).problems, HasSubstr("TENANT=WEIGHT")) << text;
  for (const char* text : {"alice", "alice=5", "alice=/1MiB", "alice=5/", "alice=5/lots",
                           "alice=1000001/1MiB", "alice=1/1B,alice=2/2B"})
    EXPECT_THAT(Read({{"quota.tenants", text}}).problems, HasSubstr("TENANT=RPS/BYTES")) << text;
}

TEST(Options, a_gateway_among_its_services_has_their_keys) {
  config::Schema alone, together;
  EXPECT_TRUE(declare_keys(alone).root_keys.has_value());
  EXPECT_FALSE(declare_keys(together, {.alone = false}).root_keys.has_value());
}

}  // namespace
}  // namespace cairn::gateway
