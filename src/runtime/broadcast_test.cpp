#include "runtime/broadcast.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/driven_shard.h"

namespace cairn {
namespace {

struct Heard {
  std::vector<int> items;
  std::vector<std::uint64_t> missed;
  ErrorCode ended = ErrorCode::ok;
};

Task<> listen(Call call, Broadcast<int>* bus, Heard* heard) {
  Broadcast<int>::Receiver receiver(*bus);
  for (;;) {
    auto item = co_await receiver.recv(call);
    if (item) {
      heard->items.push_back(*item);
    } else if (item.error().code == ErrorCode::lagged) {
      heard->missed.push_back(receiver.missed());
    } else {
      heard->ended = item.error().code;
      co_return;
    }
  }
}

TEST(Broadcast, each_receiver_gets_every_item_in_order) {
  DrivenShard d;
  Broadcast<int> bus(d.shard, 4);
  Heard a, b;
  d.scope.spawn("a", listen(d.call(), &bus, &a));
  d.scope.spawn("b", listen(d.call(), &bus, &b));
  d.settle();
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(bus.send(i).has_value());
    d.settle();
  }
  bus.close();
  d.run();
  EXPECT_EQ(a.items, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(b.items, a.items);
  EXPECT_EQ(a.ended, ErrorCode::closed);
  EXPECT_EQ(bus.lagged_total(), 0u);
}

TEST(Broadcast, a_slow_receiver_is_told_once_how_many_it_missed) {
  DrivenShard d;
  Broadcast<int> bus(d.shard, 3);
  Heard heard;
  d.scope.spawn("a", listen(d.call(), &bus, &heard));
  d.settle();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(bus.send(i).has_value());
  EXPECT_EQ(bus.depth(), 3u);
  d.settle();
  EXPECT_EQ(heard.missed, std::vector<std::uint64_t>{7});
  EXPECT_EQ(heard.items, (std::vector<int>{7, 8, 9}));
  EXPECT_EQ(bus.lagged_total(), 7u);
  ASSERT_TRUE(bus.send(10).has_value());
  bus.close();
  EXPECT_EQ(bus.send(11).error().code, ErrorCode::closed);
  d.run();
  EXPECT_EQ(heard.items, (std::vector<int>{7, 8, 9, 10}));
  EXPECT_EQ(heard.missed.size(), 1u);
}

TEST(Broadcast, close_delivers_the_rest_and_the_lag_first) {
  DrivenShard d;
  Broadcast<int> bus(d.shard, 2);
  auto receiver = bus.subscribe();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(bus.send(i).has_value());
  bus.close();
  EXPECT_EQ(receiver.try_recv().error().code, ErrorCode::lagged);
  EXPECT_EQ(receiver.missed(), 3u);
  EXPECT_EQ(receiver.try_recv().value(), 3);
  EXPECT_EQ(receiver.try_recv().value(), 4);
  EXPECT_EQ(receiver.try_recv().error().code, ErrorCode::closed);
}

TEST(Broadcast, select_takes_nothing_and_an_empty_bus_has_nothing) {
  DrivenShard d;
  Broadcast<int> bus(d.shard, 2);
  auto receiver = bus.subscribe();
  EXPECT_FALSE(receiver.try_recv().value().has_value());
  bool woke = false;
  auto body = [](Call call, Broadcast<int>::Receiver* r, bool* out) -> Task<> {
    *out = (co_await select(call, r->readable())).has_value();
  };
  d.scope.spawn("s", body(d.call(), &receiver, &woke));
  d.settle();
  ASSERT_TRUE(bus.send(1).has_value());
  d.run();
  EXPECT_TRUE(woke);
  EXPECT_EQ(receiver.try_recv().value(), 1);
}

TEST(Broadcast, a_cancelled_recv_moves_no_cursor) {
  DrivenShard d;
  Broadcast<int> bus(d.shard, 2);
  auto receiver = bus.subscribe();
  Scope inner(d.shard, d.call());
  ErrorCode code = ErrorCode::ok;
  auto body = [](Call call, Broadcast<int>::Receiver* r, ErrorCode* out) -> Task<> {
    auto item = co_await r->recv(call);
    if (!item) *out = item.error().code;
  };
  inner.spawn("r", body(inner.call(), &receiver, &code));
  d.settle();
  inner.cancel(StopReason::client_gone);
  ASSERT_TRUE(bus.send(4).has_value());
  d.run();
  EXPECT_EQ(code, ErrorCode::cancelled);
  EXPECT_EQ(receiver.try_recv().value(), 4);
}

}  // namespace
}  // namespace cairn
