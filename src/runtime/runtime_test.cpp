#include <gtest/gtest.h>

#include <vector>

#include "runtime/mpsc.h"
#include "runtime/scope.h"
#include "runtime/semaphore.h"
#include "runtime/wait.h"

namespace cairn {
namespace {

// A shard driven by hand: runs what is ready, then jumps to the next timer.
struct Bench {
  Shard shard;
  ShardScope here{shard};
  Scope scope{shard};

  void settle() {
    while (!shard.idle()) shard.run_one();
  }
  void run() {
    settle();
    while (!shard.timers().empty()) {
      shard.advance(shard.timers().next_due());
      settle();
    }
  }
};

TEST(Task, spawned_tasks_run_and_end) {
  Bench b;
  int sum = 0;
  auto add = [](int* to, int n) -> Task<> {
    *to += n;
    co_return;
  };
  b.scope.spawn("a", add(&sum, 1));
  b.scope.spawn("b", add(&sum, 2));
  EXPECT_EQ(sum, 0);
  b.run();
  EXPECT_EQ(sum, 3);
  EXPECT_TRUE(b.scope.empty());
}

TEST(Task, a_deep_chain_of_ready_tasks_needs_no_stack) {
  Bench b;
  struct Chain {
    static Task<int> one() { co_return 1; }
    static Task<> sum(long* to) {
      for (int i = 0; i < 300'000; ++i) *to += co_await one();
    }
  };
  long sum = 0;
  b.scope.spawn("sum", Chain::sum(&sum));
  b.run();
  EXPECT_EQ(sum, 300'000);
}

TEST(Scope, exceptions_reach_join_after_all_have_ended) {
  Bench b;
  struct Body {
    static Task<> fails() {
      throw std::runtime_error("x");
      co_return;
    }
    static Task<> joins(Scope* inner, Call call, bool* caught) {
      try {
        (void)co_await inner->join(call);
      } catch (const std::runtime_error&) {
        *caught = true;
      }
    }
  };
  Scope inner(b.shard, b.scope.call());
  bool caught = false;
  inner.spawn("fails", Body::fails());
  b.scope.spawn("joins", Body::joins(&inner, b.scope.call(), &caught));
  b.run();
  EXPECT_TRUE(caught);
}

TEST(Scope, a_scope_in_a_frame_is_left_empty_even_by_an_abort) {
  Bench b;
  int ended = 0;
  auto leaf = [](Call call, int* count) -> Task<> {
    (void)co_await sleep_for(call, Duration::seconds(9));
    co_await yield(call);  // still uses the frame above it after the abort
    ++*count;
  };
  auto owner = [](Call call, Shard* shard, auto make, int* count) -> Task<> {
    Scope inner(*shard, call);
    inner.spawn("first", make(inner.call(), count));
    inner.spawn("second", make(inner.call(), count));
    co_await inner.join_all(call);
    EXPECT_EQ(*count, 2);
  };
  b.scope.spawn("owner", owner(b.scope.call(), &b.shard, leaf, &ended));
  b.settle();
  EXPECT_EQ(b.scope.size(), 1u);
  b.scope.abort();
  b.settle();
  EXPECT_TRUE(b.scope.empty());
  EXPECT_EQ(ended, 2);
}

TEST(Waiter, a_bounded_task_that_waits_without_a_deadline_is_found_where_steps_are_traced) {
  struct Any final : Tracer {
    void touch(std::uint64_t, Access) override {}
    std::uint64_t new_identity() override { return ++last; }
    std::uint64_t last = 100;
  };
  struct Waiting {
    static Task<> run(Call call, WaitList* list) { (void)co_await ListWait(call, *list, "test"); }
  };
  const auto spawn = [](Waits waits, auto narrow) {
    Any any;
    Bench b;
    b.shard.set_tracer(&any);
    WaitList list;
    b.scope.spawn("a", Waiting::run(narrow(b.scope.call()), &list), waits);
    b.settle();
    b.scope.abort();
    b.settle();
  };
  const auto as_is = [](Call call) { return call; };
  spawn(Waits::freely, as_is);
  spawn(Waits::bounded, [](Call call) { return call.within(Duration::seconds(1)); });
  spawn(Waits::bounded, [](Call call) { return call.unbounded(); });
  EXPECT_DEATH(spawn(Waits::bounded, as_is), "CHECK failed");
}

TEST(Sleep, wakes_at_its_time_and_not_before) {
  Bench b;
  std::vector<std::int64_t> woke;
  auto body = [](Call call, std::vector<std::int64_t>* out, Duration d) -> Task<> {
    auto ended = co_await sleep_for(call, d);
    EXPECT_TRUE(ended.has_value());
    out->push_back(current_shard()->now().ns);
  };
  for (std::int64_t ms : {5, 1, 70, 5'000, 400'000, 20'000'000, 1'100'000'000})
    b.scope.spawn("s", body(b.scope.call(), &woke, Duration::millis(ms)));
  b.run();
  EXPECT_EQ(woke, (std::vector<std::int64_t>{1'000'000, 5'000'000, 70'000'000, 5'000'000'000, 400'000'000'000,
                                             20'000'000'000'000, 1'100'000'000'000'000}));
}

TEST(Cancel, ends_waits_with_its_reason_and_reaches_inner_scopes) {
  Bench b;
  Scope inner(b.shard, b.scope.call());
  Result<> outcome;
  auto body = [](Call call, Result<>* out) -> Task<> {
    *out = co_await sleep_for(call, Duration::seconds(9));
  };
  inner.spawn("s", body(inner.call(), &outcome));
  b.settle();
  b.scope.cancel(StopReason::draining);
  b.settle();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error(), Error(ErrorCode::cancelled, "", Side::self, StopReason::draining));
}

TEST(Cancel, a_shielded_wait_ends_only_by_abort) {
  Bench b;
  Result<> outcome;
  bool ended = false;
  auto body = [](Call call, Result<>* out, bool* done) -> Task<> {
    *out = co_await sleep_for(call.shield(), Duration::seconds(9));
    *done = true;
  };
  b.scope.spawn("s", body(b.scope.call(), &outcome, &ended));
  b.settle();
  b.scope.cancel(StopReason::draining);
  b.settle();
  EXPECT_FALSE(ended);
  b.scope.abort();
  b.settle();
  EXPECT_TRUE(ended);
}

TEST(Mpsc, one_that_drops_the_oldest_takes_every_item_and_counts_what_it_dropped) {
  Bench d;
  Mpsc<int> queue(d.shard, 2, OverflowPolicy::drop_oldest);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(queue.try_send(int(i)).has_value());
  EXPECT_EQ(queue.depth(), 2u);
  EXPECT_EQ(queue.dropped(), 3u);
  EXPECT_EQ(queue.try_recv(), 3);
  EXPECT_EQ(queue.try_recv(), 4);
  EXPECT_EQ(queue.try_recv(), std::nullopt);
  queue.close();
  EXPECT_EQ(queue.try_send(5).error().code, ErrorCode::closed);
}

TEST(Mpsc, full_queue_refuses_and_keeps_the_item) {
  Bench b;
  Mpsc<std::string> queue(b.shard, 1);
  EXPECT_TRUE(queue.try_send("a").has_value());
  std::string item = "b";
  EXPECT_EQ(queue.try_send(std::move(item)).error().code, ErrorCode::busy);
  // NOLINTNEXTLINE(bugprone-use-after-move): a refused item stays; that is the promise
  EXPECT_EQ(item, "b");
  EXPECT_EQ(queue.try_recv(), "a");
}

TEST(Mpsc, items_arrive_in_order_through_waiting_senders) {
  Bench b;
  Mpsc<int> queue(b.shard, 2);
  std::vector<int> got;
  struct Body {
    static Task<> produce(Call call, Mpsc<int>* q) {
      for (int i = 0; i < 10; ++i) EXPECT_TRUE((co_await q->send(call, i)).has_value());
      q->close();
    }
    static Task<> consume(Call call, Mpsc<int>* q, std::vector<int>* out) {
      while (auto item = co_await q->recv(call)) out->push_back(*item);
    }
  };
  b.scope.spawn("p", Body::produce(b.scope.call(), &queue));
  b.scope.spawn("c", Body::consume(b.scope.call(), &queue, &got));
  b.run();
  EXPECT_EQ(got, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Mpsc, send_gives_up_at_its_deadline) {
  Bench b;
  Mpsc<int> queue(b.shard, 1);
  ASSERT_TRUE(queue.try_send(1).has_value());
  Result<> outcome;
  auto body = [](Call call, Mpsc<int>* q, Result<>* out) -> Task<> {
    *out = co_await q->send(call.within(Duration::millis(5)), 2);
  };
  b.scope.spawn("s", body(b.scope.call(), &queue, &outcome));
  b.run();
  EXPECT_EQ(outcome.error().code, ErrorCode::timeout);
  EXPECT_EQ(queue.depth(), 1u);
}

TEST(Select, reports_the_arm_and_takes_nothing) {
  Bench b;
  Mpsc<int> first(b.shard, 1), second(b.shard, 1);
  std::size_t arm = 9;
  auto body = [](Call call, Mpsc<int>* x, Mpsc<int>* y, std::size_t* out) -> Task<> {
    auto which = co_await select(call, x->readable(), y->readable());
    *out = *which;
  };
  b.scope.spawn("s", body(b.scope.call(), &first, &second, &arm));
  b.settle();
  ASSERT_TRUE(second.try_send(7).has_value());
  ASSERT_TRUE(first.try_send(6).has_value());
  b.run();
  EXPECT_EQ(arm, 1u);
  EXPECT_EQ(first.depth(), 1u);
  EXPECT_EQ(second.depth(), 1u);
}

TEST(Semaphore, permits_are_conserved_when_a_waiter_is_cancelled) {
  Bench b;
  Semaphore semaphore(b.shard, 1);
  Scope inner(b.shard, b.scope.call());
  auto body = [](Call call, Semaphore* s) -> Task<> {
    auto permit = co_await s->acquire(call);
    (void)co_await sleep_for(call, Duration::seconds(1));
  };
  inner.spawn("a", body(inner.call(), &semaphore));
  inner.spawn("b", body(inner.call(), &semaphore));
  b.settle();
  EXPECT_EQ(semaphore.available(), 0u);
  inner.cancel(StopReason::client_gone);
  b.settle();
  EXPECT_EQ(semaphore.available(), 1u);
}

}  // namespace
}  // namespace cairn
