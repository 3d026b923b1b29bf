#include "io/dht_ask.h"

#include <gtest/gtest.h>

#include <optional>

#include "io/dht_setting.h"
#include "runtime/driven_shard.h"

namespace cairn::io {
namespace {

// A shard with its mailbox, and a get that waits on it.
struct Asking : DrivenShard {
  ~Asking() {
    scope.cancel(StopReason::aborted);
    run_mail();
  }
  std::shared_ptr<DhtAsk> make() {
    auto made = DhtAsk::make(load, mailbox);
    CHECK(made.has_value());
    return *made;
  }
  void begin_get(std::shared_ptr<DhtAsk> ask) {
    scope.spawn("get", run_get(scope.call(), this, std::move(ask)));
    settle();
  }
  static Task<> run_get(Call call, Asking* self, std::shared_ptr<DhtAsk> ask) {
    self->outcome = co_await take_values(call, std::move(ask), [self](const DhtValue& value) {
      self->values.push_back(value);
      return self->values.size() >= self->enough;
    });
  }
  void run_mail() {
    do settle();
    while (mailbox.drain() > 0);
    settle();
  }

  std::shared_ptr<DhtLoad> load = std::make_shared<DhtLoad>();
  Mailbox mailbox{[] {}};
  std::vector<DhtValue> values;
  std::size_t enough = 1'000'000;
  std::optional<Result<DhtOutcome>> outcome;
};

TEST(DhtAsk, values_come_in_their_order_and_the_end_after_them) {
  Asking at;
  auto ask = at.make();
  const DhtCaller caller(ask);
  at.begin_get(std::move(ask));
  EXPECT_TRUE(caller.give(1, as_bytes("one")));
  EXPECT_TRUE(caller.give(2, as_bytes("two")));
  caller.end(DhtEnd::complete);
  caller.end(DhtEnd::failed);
  EXPECT_FALSE(caller.give(3, as_bytes("after the end")));
  at.run_mail();
  EXPECT_EQ(at.values, (std::vector<DhtValue>{{1, "one"}, {2, "two"}}));
  ASSERT_TRUE(at.outcome.has_value());
  ASSERT_EQ(code_of(*at.outcome), ErrorCode::ok);
  EXPECT_TRUE((*at.outcome)->complete);
}

TEST(DhtAsk, DQ1_after_the_task_has_left_nothing_is_posted_and_nothing_is_kept) {
  Asking at;
  at.enough = 1;
  auto ask = at.make();
  const DhtCaller caller(ask);
  at.begin_get(std::move(ask));
  EXPECT_TRUE(caller.give(1, as_bytes("enough")));
  EXPECT_TRUE(caller.give(2, as_bytes("too many")));
  at.run_mail();
  ASSERT_TRUE(at.outcome.has_value());
  EXPECT_FALSE(caller.wanted());
  EXPECT_FALSE(caller.give(3, as_bytes("late")));
  EXPECT_FALSE(caller.drop());
  caller.end(DhtEnd::complete);
  EXPECT_FALSE(at.mailbox.has_mail());
  EXPECT_EQ(at.values.size(), 1u);
  EXPECT_EQ(at.load->held.taken(), 0u);
}

TEST(DhtAsk, DQ1_a_cancelled_get_hears_nothing_more) {
  Asking at;
  auto ask = at.make();
  const DhtCaller caller(ask);
  at.begin_get(std::move(ask));
  EXPECT_TRUE(caller.give(1, as_bytes("in the mailbox")));
  at.scope.cancel(StopReason::client_gone);
  at.settle();
  ASSERT_TRUE(at.outcome.has_value());
  EXPECT_EQ(code_of(*at.outcome), ErrorCode::cancelled);
  EXPECT_FALSE(caller.give(2, as_bytes("late")));
  at.run_mail();
  EXPECT_TRUE(at.values.empty());
  EXPECT_EQ(at.load->held.taken(), 0u);
}

TEST(DhtAsk, DQ2_a_network_that_lets_go_without_a_word_has_failed_or_was_closed) {
  for (const bool closed : {false, true}) {
    Asking at;
    auto ask = at.make();
    std::optional<DhtCaller> caller(std::in_place, ask);
    std::optional<DhtCaller> copy(caller);
    at.begin_get(std::move(ask));
    caller.reset();
    at.run_mail();
    EXPECT_FALSE(at.outcome.has_value()) << "a copy is still there";
    at.load->closed = closed;
    copy.reset();
    at.run_mail();
    ASSERT_TRUE(at.outcome.has_value());
    EXPECT_EQ(code_of(*at.outcome), closed ? ErrorCode::closed : ErrorCode::upstream);
    EXPECT_EQ(code_of(DhtAsk::make(at.load, at.mailbox)), closed ? ErrorCode::closed : ErrorCode::ok);
  }
}

TEST(DhtAsk, each_end_has_its_error) {
  EXPECT_EQ(error_of(DhtEnd::no_node).code, ErrorCode::not_ready);
  EXPECT_EQ(error_of(DhtEnd::failed).code, ErrorCode::upstream);
  EXPECT_EQ(error_of(DhtEnd::closed).code, ErrorCode::closed);
  for (const DhtEnd end : {DhtEnd::no_node, DhtEnd::failed}) {
    EXPECT_EQ(error_of(end).side, Side::upstream);
    EXPECT_EQ(error_of(end).retry(), Retry::later);
  }
}

TEST(DhtAsk, DH2_what_is_too_much_or_too_large_is_dropped_and_counted) {
  Asking at;
  auto ask = at.make();
  const DhtCaller caller(ask);
  EXPECT_TRUE(caller.give(1, as_bytes(std::string(dht_value_max + 1, 'x'))));
  EXPECT_TRUE(caller.give(1, {}));
  EXPECT_TRUE(caller.drop());
  for (std::uint64_t id = 1; id <= dht_values_most + 5; ++id) EXPECT_TRUE(caller.give(id, as_bytes("x")));
  caller.end(DhtEnd::complete);
  at.begin_get(std::move(ask));
  at.run_mail();
  ASSERT_TRUE(at.outcome.has_value());
  ASSERT_EQ(code_of(*at.outcome), ErrorCode::ok);
  EXPECT_EQ((*at.outcome)->given, dht_values_most);
  EXPECT_EQ((*at.outcome)->dropped, 8u);
  EXPECT_EQ(at.load->dropped, 8u);
  EXPECT_EQ(at.values.size(), dht_values_most);
}

TEST(DhtAsk, DH2_all_gets_together_hold_a_bounded_number_of_values) {
  Asking at;
  std::vector<std::shared_ptr<DhtAsk>> asks;
  for (std::size_t i = 0; i < dht_held_most / dht_values_most; ++i) asks.push_back(at.make());
  auto last = at.make();
  for (const auto& ask : asks)
    for (std::uint64_t id = 1; id <= dht_values_most; ++id) EXPECT_TRUE(ask->give(id, as_bytes("x")));
  EXPECT_TRUE(last->give(1, as_bytes("x")));
  EXPECT_EQ(last->collect().values.size(), 0u);
  EXPECT_EQ(at.load->dropped, 1u);
  asks.front()->leave();
  EXPECT_TRUE(last->give(1, as_bytes("x")));
  EXPECT_EQ(last->collect().values.size(), 1u);
  at.run_mail();
}

TEST(DhtAsk, only_so_many_are_under_way_and_an_abandoned_one_counts_until_the_network_lets_go) {
  Asking at;
  std::vector<DhtCaller> callers;
  for (std::size_t i = 0; i < dht_under_way_most; ++i) {
    const auto ask = at.make();
    callers.emplace_back(ask);
    ask->leave();
  }
  EXPECT_EQ(code_of(DhtAsk::make(at.load, at.mailbox)), ErrorCode::busy);
  callers.pop_back();
  EXPECT_EQ(code_of(DhtAsk::make(at.load, at.mailbox)), ErrorCode::ok);
}

}  // namespace
}  // namespace cairn::io
