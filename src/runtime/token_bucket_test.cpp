#include "runtime/token_bucket.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/driven_shard.h"

namespace cairn {
namespace {

struct Grant {
  int who;
  std::int64_t ms;
  friend bool operator==(const Grant&, const Grant&) = default;
};

Task<> take(Call call, TokenBucket* bucket, std::uint64_t bytes, int who, std::vector<Grant>* out) {
  auto taken = co_await bucket->take(call, bytes);
  out->push_back({taken ? who : -who, current_shard()->now().ns / 1'000'000});
}

TEST(TokenBucket, the_burst_passes_at_once_and_the_rest_at_the_rate_in_order) {
  DrivenShard d;
  TokenBucket bucket(d.shard, Rate{1'000}, Bytes{100});
  std::vector<Grant> grants;
  d.scope.spawn("a", take(d.call(), &bucket, 100, 1, &grants));
  d.scope.spawn("b", take(d.call(), &bucket, 50, 2, &grants));
  d.scope.spawn("c", take(d.call(), &bucket, 10, 3, &grants));
  d.run();
  EXPECT_EQ(grants, (std::vector<Grant>{{1, 0}, {2, 50}, {3, 60}}));
}

TEST(TokenBucket, a_take_larger_than_the_burst_waits_for_the_difference) {
  DrivenShard d;
  TokenBucket bucket(d.shard, Rate{1'000}, Bytes{100});
  std::vector<Grant> grants;
  d.scope.spawn("a", take(d.call(), &bucket, 300, 1, &grants));
  d.run();
  EXPECT_EQ(grants, (std::vector<Grant>{{1, 200}}));
}

TEST(TokenBucket, idleness_fills_it_to_the_burst_only) {
  DrivenShard d;
  TokenBucket bucket(d.shard, Rate{1'000}, Bytes{100});
  std::vector<Grant> grants;
  d.run_for(Duration::seconds(100));
  d.scope.spawn("a", take(d.call(), &bucket, 150, 1, &grants));
  d.run();
  EXPECT_EQ(grants, (std::vector<Grant>{{1, 100'050}}));
}

TEST(TokenBucket, a_take_that_gives_up_returns_its_bytes) {
  DrivenShard d;
  TokenBucket bucket(d.shard, Rate{1'000}, Bytes{100});
  std::vector<Grant> grants;
  d.scope.spawn("a", take(d.call().within(Duration::millis(10)), &bucket, 1'100, 1, &grants));
  d.run();
  d.scope.spawn("b", take(d.call(), &bucket, 110, 2, &grants));
  d.run();
  EXPECT_EQ(grants, (std::vector<Grant>{{-1, 10}, {2, 20}}));  // full again, and 10 bytes more than that
}

TEST(TokenBucket, a_cancelled_take_returns_its_bytes) {
  DrivenShard d;
  TokenBucket bucket(d.shard, Rate{1'000}, Bytes{100});
  std::vector<Grant> grants;
  Scope inner(d.shard, d.call());
  inner.spawn("a", take(inner.call(), &bucket, 1'100, 1, &grants));
  d.settle();
  inner.cancel(StopReason::client_gone);
  d.settle();
  d.scope.spawn("b", take(d.call(), &bucket, 101, 2, &grants));
  d.run();
  EXPECT_EQ(grants, (std::vector<Grant>{{-1, 0}, {2, 1}}));
}

}  // namespace
}  // namespace cairn
