#include "runtime/watch.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/driven_shard.h"

namespace cairn {
namespace {

Task<> follow(Call call, Watch<int>* watch, std::vector<int>* seen, ErrorCode* ended) {
  Watch<int>::Receiver receiver(*watch);
  for (;;) {
    auto changed = co_await receiver.changed(call);
    if (!changed) {
      *ended = changed.error().code;
      co_return;
    }
    seen->push_back(receiver.get());
  }
}

TEST(Watch, a_slow_receiver_ends_on_the_newest_value) {
  DrivenShard d;
  Watch<int> watch(d.shard, 0);
  std::vector<int> seen;
  ErrorCode ended = ErrorCode::ok;
  d.scope.spawn("f", follow(d.call(), &watch, &seen, &ended));
  d.settle();
  watch.set(1);
  d.settle();
  watch.set(2);
  watch.set(3);
  watch.close();
  d.run();
  EXPECT_EQ(seen, (std::vector<int>{1, 3}));
  EXPECT_EQ(ended, ErrorCode::closed);
}

TEST(Watch, a_new_receiver_has_seen_the_value_of_that_moment) {
  DrivenShard d;
  Watch<int> watch(d.shard, 5);
  auto receiver = watch.subscribe();
  EXPECT_FALSE(receiver.unseen());
  EXPECT_EQ(receiver.get(), 5);
  watch.set(6);
  EXPECT_TRUE(receiver.unseen());
  EXPECT_EQ(receiver.get(), 6);
  EXPECT_FALSE(receiver.unseen());
}

TEST(Watch, every_receiver_is_woken) {
  DrivenShard d;
  Watch<int> watch(d.shard, 0);
  std::vector<int> a, b;
  ErrorCode ended = ErrorCode::ok;
  d.scope.spawn("a", follow(d.call(), &watch, &a, &ended));
  d.scope.spawn("b", follow(d.call(), &watch, &b, &ended));
  d.settle();
  watch.set(9);
  d.settle();
  EXPECT_EQ(a, std::vector<int>{9});
  EXPECT_EQ(b, std::vector<int>{9});
  d.scope.cancel(StopReason::draining);
  d.run();
  EXPECT_EQ(ended, ErrorCode::cancelled);
}

TEST(Watch, select_sees_a_change_made_before_and_during_the_wait) {
  DrivenShard d;
  Watch<int> first(d.shard, 0), second(d.shard, 0);
  std::vector<std::size_t> arms;
  auto body = [](Call call, Watch<int>* x, Watch<int>* y, std::vector<std::size_t>* out) -> Task<> {
    auto rx = x->subscribe();
    auto ry = y->subscribe();
    y->set(1);
    out->push_back((co_await select(call, rx.changed_arm(), ry.changed_arm())).value());
    (void)ry.get();
    out->push_back((co_await select(call, rx.changed_arm(), ry.changed_arm())).value());
  };
  d.scope.spawn("s", body(d.call(), &first, &second, &arms));
  d.settle();
  first.set(1);
  d.run();
  EXPECT_EQ(arms, (std::vector<std::size_t>{1, 0}));
}

}  // namespace
}  // namespace cairn
