#include "services/gateway/quota.h"

#include <gtest/gtest.h>

#include "services/gateway/quota_file.h"
#include "services/gateway/simulated_gateway.h"

namespace cairn::gateway {
namespace {

constexpr WallTime noon{20'000 * std::int64_t{86'400'000} + 43'200'000};
constexpr Instant begin{1'000'000'000'000};

TEST(Quota, without_one_everything_passes_and_nobody_is_told) {
  Quota quota({});
  quota.count_bytes(1u << 30, noon);
  for (int i = 0; i < 1000; ++i) {
    const Quota::Standing standing = quota.try_take(begin, noon);
    EXPECT_FALSE(standing.has_quota || standing.spent);
  }
}

TEST(Quota, so_many_requests_a_second_and_the_headers_count_down) {
  Quota quota({.rps = 5});
  for (std::uint64_t left = 5; left-- > 0;) {
    const Quota::Standing standing = quota.try_take(begin, noon);
    EXPECT_FALSE(standing.spent);
    EXPECT_EQ(standing.limit, 5u);
    EXPECT_EQ(standing.remaining, left);
    EXPECT_EQ(standing.reset, 1u);
  }
  const Quota::Standing spent = quota.try_take(begin, noon);
  EXPECT_TRUE(spent.spent);
  EXPECT_EQ(spent.remaining, 0u);
  EXPECT_EQ(spent.retry_after, 1u);
  EXPECT_FALSE(quota.try_take(begin + Duration::millis(200), noon).spent) << "one of five came back";
  EXPECT_TRUE(quota.try_take(begin + Duration::millis(200), noon).spent);
}

TEST(Quota, the_days_bytes_are_spent_until_midnight_in_utc) {
  Quota quota({.bytes_per_day = 1000});
  EXPECT_EQ(quota.try_take(begin, noon).remaining, 1000u);
  quota.count_bytes(999, noon);
  EXPECT_FALSE(quota.try_take(begin, noon).spent);
  quota.count_bytes(500, noon);
  const Quota::Standing spent = quota.try_take(begin, noon);
  EXPECT_TRUE(spent.spent);
  EXPECT_EQ(spent.remaining, 0u);
  EXPECT_EQ(spent.retry_after, 43'200u);
  EXPECT_FALSE(quota.try_take(begin, {noon.ms + 43'200'000}).spent);
  EXPECT_TRUE(quota.try_take(begin, noon).has_quota);
}

TEST(Quota, a_clock_that_steps_back_gives_nothing_back) {
  Quota quota({.bytes_per_day = 10});
  quota.count_bytes(10, noon);
  EXPECT_TRUE(quota.try_take(begin, {noon.ms - 86'400'000}).spent);
}

TEST(Quota, new_limits_hold_at_once) {
  Quota quota({.rps = 1});
  EXPECT_FALSE(quota.try_take(begin, noon).spent);
  EXPECT_TRUE(quota.try_take(begin, noon).spent);
  quota.set_limits({.rps = 100});
  EXPECT_FALSE(quota.try_take(begin + Duration::millis(10), noon).spent);
  quota.set_limits({});
  EXPECT_FALSE(quota.try_take(begin, noon).has_quota);
}

const QuotaRecord sample{.day = 20'000,
                         .uses = {{"198.51.100.0/24", true, 7}, {"a tenant = with signs", false, ~0ull}}};

TEST(QuotaFile, what_is_written_is_read) {
  EXPECT_EQ(decode_quota(encode_quota(sample)), sample);
  EXPECT_EQ(decode_quota(encode_quota({.day = -1})), QuotaRecord{.day = -1});
}

TEST(QuotaFile, a_file_that_is_cut_or_changed_anywhere_is_not_read) {
  const std::string text = encode_quota(sample);
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_EQ(decode_quota(text.substr(0, size)), std::nullopt) << size;
  for (std::size_t at = 0; at < text.size(); ++at)
    for (const int bit : {1, 4, 32}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      EXPECT_EQ(decode_quota(damaged), std::nullopt) << at;
    }
}

TEST(QuotaFile, tenants_go_on_from_what_they_had_used_on_the_same_day) {
  Tenants tenants({.default_quota = {.bytes_per_day = 100}});
  tenants.find("alice", false)->quota.count_bytes(60, noon);
  tenants.find("10.0.0.0/24", true)->quota.count_bytes(5, noon);
  (void)tenants.find("idle", false);
  const QuotaRecord record = record_quotas(tenants, day_of(noon));
  EXPECT_EQ(record.uses.size(), 2u);
  Tenants again({.default_quota = {.bytes_per_day = 100}});
  restore_quotas(again, record);
  EXPECT_EQ(again.find("alice", false)->quota.used(day_of(noon)), 60u);
  EXPECT_TRUE(again.find("10.0.0.0/24", true)->is_address);
  const WallTime tomorrow{noon.ms + 86'400'000};
  EXPECT_EQ(again.find("alice", false)->quota.try_take(begin, tomorrow).remaining, 100u);
}

TEST(Quota, what_was_used_on_a_day_that_is_over_does_not_come_back) {
  const WallTime tomorrow{noon.ms + 86'400'000};
  Quota quota({.bytes_per_day = 100});
  quota.count_bytes(10, tomorrow);
  quota.restore(day_of(noon), 60);
  EXPECT_EQ(quota.used(day_of(tomorrow)), 10u);
}

TEST(QuotaFile, a_gateway_goes_on_where_the_one_before_it_ended_or_was_ten_seconds_before) {
  for (const bool drained : {true, false}) {
    SimulatedGateway first({.settings = {{"quota.bytes_per_day", "5000B"}}, .data = "data/gateway"});
    EXPECT_EQ(first.ask(get("/o/object")).status, 200);  // 1,024 bytes
    if (drained) {
      first.drain(Duration::seconds(1));
      ASSERT_TRUE(first.world.run_until([&] { return first.ended; }, Duration::seconds(10)));
    } else {
      first.world.run_for(Duration::seconds(11));
    }
    SimulatedGateway second({.settings = {{"quota.bytes_per_day", "5000B"}}, .data = "data/gateway"});
    second.host.disk().load(first.host.disk().durable());
    EXPECT_EQ(second.ask(get("/o/object")).field("RateLimit-Remaining"), "3976") << drained;
  }
}

}  // namespace
}  // namespace cairn::gateway
