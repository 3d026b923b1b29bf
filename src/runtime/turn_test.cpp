#include "runtime/turn.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/driven_shard.h"

namespace cairn {
namespace {

struct Bench {
  DrivenShard driven;
  Permits places{2};
  FifoOrder order;
  Turns turns{driven.shard, places, order};
  Scope mortals{driven.shard, driven.call()};
  std::string told;
  ErrorCode last = ErrorCode::ok;

  ~Bench() {
    turns.close();
    driven.run();
  }
  Task<> ask(Call call, int number, Duration takes = Duration::millis(1)) {
    auto turn = co_await turns.ask(call);
    told += std::to_string(number) + (turn ? "+ " : "- ");
    if (!turn) last = turn.error().code;
    if (turn) (void)co_await sleep_for(driven.call(), takes);
  }
  void asks(int number, Duration takes = Duration::millis(1)) {
    driven.scope.spawn("asker", ask(driven.call(), number, takes));
  }
  void asks_within(int number, Duration deadline) {
    driven.scope.spawn("asker", ask(driven.call().within(deadline), number));
  }
  void hire() { driven.scope.spawn("worker", turns.work(driven.call())); }
};

TEST(Turn, those_that_wait_get_theirs_in_the_order_they_came) {
  Bench bench;
  bench.hire();
  for (const int number : {1, 2, 3}) bench.asks(number);
  bench.driven.settle();
  EXPECT_EQ(bench.told, "1+ ");
  EXPECT_EQ(bench.turns.depth(), 2u);
  bench.driven.run();
  EXPECT_EQ(bench.told, "1+ 2+ 3+ ");
  EXPECT_EQ(bench.places.taken(), 0u);
}

TEST(Turn, a_full_queue_refuses_at_once) {
  Bench bench;
  for (const int number : {1, 2, 3}) bench.asks(number);
  bench.driven.settle();
  EXPECT_EQ(bench.told, "3- ");
  EXPECT_EQ(bench.last, ErrorCode::busy);
  bench.hire();
  bench.driven.run();
  EXPECT_EQ(bench.told, "3- 1+ 2+ ");
}

TEST(Turn, who_waited_too_long_gets_none_and_its_place_is_free_at_once) {
  Bench bench;
  bench.asks_within(1, Duration::millis(5));
  bench.driven.run_for(Duration::millis(50));
  EXPECT_EQ(bench.told, "1- ");
  EXPECT_EQ(bench.last, ErrorCode::timeout);
  EXPECT_EQ(bench.places.taken(), 0u);
  EXPECT_EQ(bench.turns.depth(), 0u);
}

TEST(Turn, nobody_passes_by_those_that_wait) {
  Bench bench;
  bench.hire();
  bench.asks(1);
  bench.asks(2);
  bench.driven.settle();
  bench.hire();  // a second slot: the one that waits has it before anybody who comes now
  bench.asks(3, Duration::millis(9));
  bench.driven.run();
  EXPECT_EQ(bench.told, "1+ 2+ 3+ ");
}

TEST(Turn, a_worker_that_dies_takes_its_slot_with_it_and_whoever_has_a_turn_keeps_it) {
  Bench bench;
  bench.mortals.spawn("worker", bench.turns.work(bench.mortals.call()));
  bench.driven.settle();
  bench.asks(1, Duration::millis(20));
  bench.driven.settle();
  bench.mortals.cancel(StopReason::aborted);
  bench.driven.settle();
  bench.hire();
  bench.asks(2);
  bench.driven.run_for(Duration::millis(10));
  EXPECT_EQ(bench.told, "1+ ") << "the new worker's slot is the one that the first still uses";
  bench.driven.run_for(Duration::millis(20));
  EXPECT_EQ(bench.told, "1+ 2+ ");
}

TEST(Turn, after_close_nobody_joins_and_workers_end_with_the_last_turn) {
  Bench bench;
  bench.hire();
  bench.asks(1);
  bench.asks(2);
  bench.driven.settle();
  bench.turns.close();
  bench.asks(3);
  bench.driven.settle();
  EXPECT_EQ(bench.told, "1+ 3- ");
  EXPECT_EQ(bench.last, ErrorCode::closed);
  EXPECT_EQ(bench.driven.scope.size(), 3u) << "the worker, and the two that have or wait for a turn";
  bench.driven.run();
  EXPECT_EQ(bench.told, "1+ 3- 2+ ");
  EXPECT_EQ(bench.driven.scope.size(), 0u);
}

// The order decides: here the dearest first.
class DearestFirst final : public TurnOrder {
 public:
  void add(TurnSeeker& seeker) noexcept override { list_.push_back(seeker); }
  TurnSeeker* take_next() noexcept override {
    TurnSeeker* best = nullptr;
    list_.for_each([&](TurnSeeker& each) {
      if (best == nullptr || each.cost > best->cost) best = &each;
    });
    if (best != nullptr) best->unlink();
    return best;
  }
  void remove(TurnSeeker& seeker) noexcept override { seeker.unlink(); }

 private:
  List<TurnSeeker> list_;
};

TEST(Turn, an_order_other_than_that_of_coming_is_the_policys) {
  DrivenShard driven;
  Permits places{4};
  DearestFirst order;
  std::size_t most = 0;
  Turns turns(driven.shard, places, order, [&](std::size_t depth) { most = std::max(most, depth); });
  std::string told;
  struct Asker {
    static Task<> ask(Call call, Turns& turns, std::string& told, unsigned cost) {
      auto turn = co_await turns.ask(call, {.cost = cost});
      told += std::to_string(cost) + " ";
    }
  };
  for (const unsigned cost : {1u, 3u, 2u})
    driven.scope.spawn("asker", Asker::ask(driven.call(), turns, told, cost));
  driven.settle();
  driven.scope.spawn("worker", turns.work(driven.call()));
  driven.run();
  EXPECT_EQ(told, "3 2 1 ");
  EXPECT_EQ(most, 3u);
  turns.close();
  driven.run();
}

}  // namespace
}  // namespace cairn
