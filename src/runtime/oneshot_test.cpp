#include "runtime/oneshot.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/driven_shard.h"

namespace cairn {
namespace {

using Text = Oneshot<std::string>;

Task<> receive(Call call, Text* from, Result<std::string>* out) { *out = co_await from->recv(call); }

TEST(Oneshot, a_waiting_receiver_gets_the_value) {
  DrivenShard d;
  Text oneshot(d.shard);
  Text::Sender sender = oneshot.sender();
  Result<std::string> got = fail(ErrorCode::internal, "");
  d.scope.spawn("r", receive(d.call(), &oneshot, &got));
  d.settle();
  EXPECT_TRUE(sender.wanted());
  EXPECT_TRUE(sender.try_send("x").has_value());
  EXPECT_FALSE(sender.wanted());
  d.run();
  EXPECT_EQ(got, "x");
}

TEST(Oneshot, a_sender_that_goes_away_closes) {
  DrivenShard d;
  Text oneshot(d.shard);
  Result<std::string> got;
  {
    Text::Sender first = oneshot.sender();
    Text::Sender moved = std::move(first);
    d.scope.spawn("r", receive(d.call(), &oneshot, &got));
    d.settle();
  }
  d.run();
  EXPECT_EQ(got.error().code, ErrorCode::closed);
}

TEST(Oneshot, a_receiver_that_goes_away_refuses_and_keeps_the_value) {
  DrivenShard d;
  Text::Sender sender;
  {
    Text oneshot(d.shard);
    sender = oneshot.sender();
  }
  std::string value = "v";
  EXPECT_EQ(sender.try_send(std::move(value)).error().code, ErrorCode::closed);
  // NOLINTNEXTLINE(bugprone-use-after-move): a refused item stays; that is the promise
  EXPECT_EQ(value, "v");
}

TEST(Oneshot, a_value_survives_the_cancel_of_the_wait_it_met) {
  DrivenShard d;
  Text oneshot(d.shard);
  auto sender = oneshot.sender();
  Scope inner(d.shard, d.call());
  Result<std::string> first, second;
  inner.spawn("r", receive(inner.call(), &oneshot, &first));
  d.settle();
  inner.cancel(StopReason::client_gone);
  ASSERT_TRUE(sender.try_send("kept").has_value());
  d.run();
  EXPECT_EQ(first.error().code, ErrorCode::cancelled);
  d.scope.spawn("r", receive(d.call(), &oneshot, &second));
  d.run();
  EXPECT_EQ(second, "kept");
}

TEST(Oneshot, a_value_handed_over_before_the_cancel_is_received) {
  DrivenShard d;
  Text oneshot(d.shard);
  auto sender = oneshot.sender();
  Scope inner(d.shard, d.call());
  Result<std::string> got;
  inner.spawn("r", receive(inner.call(), &oneshot, &got));
  d.settle();
  ASSERT_TRUE(sender.try_send("v").has_value());
  inner.cancel(StopReason::client_gone);
  d.run();
  EXPECT_EQ(got, "v");
}

TEST(Oneshot, is_received_once) {
  DrivenShard d;
  Oneshot<std::unique_ptr<int>> oneshot(d.shard);
  ASSERT_TRUE(oneshot.sender().try_send(std::make_unique<int>(3)).has_value());
  EXPECT_EQ(*oneshot.try_recv().value(), 3);
  EXPECT_FALSE(oneshot.try_recv().has_value());
}

}  // namespace
}  // namespace cairn
