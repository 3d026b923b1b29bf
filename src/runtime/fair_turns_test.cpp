#include "runtime/fair_turns.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/fair_process.h"
#include "runtime/scarce_memory.h"

namespace cairn {
namespace {

using Place = DrivenPlace;

struct Tenants {
  DrrTenant a, b, c;
};

// The tenants outlive the process.
class FairTurnsTest : public testing::Test, protected Tenants, protected FairProcess {
 protected:
  ~FairTurnsTest() override { finish(); }

  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives its tasks
  Task<> asker(Call call, Call after, Place& place, DrrTenant& tenant, std::string name, Duration takes) {
    auto turn = co_await place.turns->ask(call, {.cost = 1, .tenant = &tenant});
    told += name + (turn ? "+ " : "- ");
    if (!turn) last = turn.error();
    if (turn) (void)co_await sleep_for(after, takes);
  }
  void ask(Place& place, DrrTenant& tenant, const std::string& name, Duration takes = 10_ms,
           Duration deadline = Duration::seconds(900)) {
    ShardScope here(place.shard);
    place.scope.spawn(
        "asker", asker(place.scope.call().within(deadline), place.scope.call(), place, tenant, name, takes));
  }

  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives its tasks
  static Task<> await_end(Call call, Place& place, bool& over) {
    (void)co_await place.turns->settle(call);
    over = true;
  }

  std::string told;
  Error last;
};

TEST_F(FairTurnsTest, while_a_slot_is_free_and_nobody_waits_a_request_never_meets_the_scheduler) {
  open(4);
  hire(far);
  settle();
  ask(far, a, "a");
  far.step();
  EXPECT_EQ(told, "a+ ") << "there is no scheduler yet, and no mail was carried";
  EXPECT_EQ(places.taken(), 0u);
}

// FT-2
TEST_F(FairTurnsTest, what_needs_no_wait_passes_by_nobody) {
  open(1);
  hire(near);
  start_scheduler();
  settle();
  {
    ShardScope here(near.shard);
    const auto turn = near.turns->try_take({.cost = 3, .tenant = &a});
    EXPECT_TRUE(turn);
    EXPECT_EQ(scheduler.out(), 1u);
    EXPECT_FALSE(near.turns->try_take({.cost = 1, .tenant = &b})) << "the slot is out";
  }
  EXPECT_EQ(scheduler.out(), 0u);
  EXPECT_EQ(a.served(), 3u);
  EXPECT_EQ(b.served(), 0u);
  ask(near, a, "x");
  ask(near, a, "y");
  settle();
  {
    ShardScope here(near.shard);
    EXPECT_FALSE(near.turns->try_take({.cost = 1, .tenant = &b})) << "one waits";
  }
  run_for(20_ms);
  EXPECT_EQ(told, "x+ y+ ");
  ShardScope here(near.shard);
  EXPECT_TRUE(near.turns->try_take({.cost = 1, .tenant = &b}));
  near.turns->close();
  EXPECT_FALSE(near.turns->try_take({.cost = 1, .tenant = &b}));
}

TEST_F(FairTurnsTest, the_order_is_one_for_all_shards) {
  open(1);
  hire(near);
  hire(far);
  start_scheduler();
  settle();
  ask(near, a, "x", 10_ms);
  ask(far, b, "y", 15_ms);
  settle();
  told.clear();
  for (int i = 0; i < 3; ++i) ask(far, a, "a" + std::to_string(i));
  settle();
  ask(near, b, "b0");
  run_for(5_ms);
  EXPECT_EQ(told, "") << "no slot is free";
  run_for(100_ms);
  EXPECT_EQ(told, "a0+ b0+ a1+ a2+ ");
}

TEST_F(FairTurnsTest, a_full_work_queue_refuses_at_once_and_a_tenant_below_its_share_has_room_beyond) {
  open(1, 512, 8);
  start_scheduler();
  for (int i = 0; i < 9; ++i) ask(far, a, "a");
  settle();
  EXPECT_EQ(told, "a- ");
  EXPECT_EQ(last.code, ErrorCode::busy);
  ask(near, b, "b");
  settle();
  EXPECT_EQ(told, "a- ") << "the newcomer waits";
  ask(near, b, "b");
  settle();
  EXPECT_EQ(told, "a- b- ");
  hire(near);
}

TEST_F(FairTurnsTest, once_half_of_work_is_used_a_tenant_above_its_share_is_refused_and_another_is_not) {
  open(1, 512, 8);
  start_scheduler();
  ask(near, b, "b");
  settle();
  for (int i = 0; i < 6; ++i) ask(far, a, "a");
  settle();
  EXPECT_EQ(told, "a- a- ") << "four of eight places are its share";
  ask(near, b, "b");
  settle();
  EXPECT_EQ(told, "a- a- ");
  hire(near);
}

TEST_F(FairTurnsTest, without_memory_an_asker_has_no_place) {
  if (!ScarceMemory::works) GTEST_SKIP() << "the sanitizer's memory does not run out";
  open(1);
  int failed = 0;
  // What was made stays in the shard's pool: each time there is memory for one thing more.
  for (; near.turns->depth() == 0 && failed < 20; ++failed) {
    EXPECT_EQ(places.taken(), 0u);
    EXPECT_EQ(scheduler.waiting(), 0u);
    EXPECT_EQ(a.uses.load(), 0u);
    const ScarceMemory memory(1);
    try {
      ask(near, a, "a");
    } catch (const std::bad_alloc&) {
    }
    near.step();
  }
  EXPECT_GE(failed, 3);
  EXPECT_EQ(places.taken(), 1u);
  EXPECT_EQ(scheduler.waiting(), 1u);
}

TEST_F(FairTurnsTest, who_waits_too_long_is_never_started_and_its_place_is_free_at_once) {
  open(1);
  hire(near);
  start_scheduler();
  settle();
  ask(near, b, "b", 50_ms);
  settle();
  ask(far, a, "a", 10_ms, 5_ms);
  run_for(10_ms);
  EXPECT_EQ(told, "b+ a- ");
  EXPECT_EQ(last.code, ErrorCode::timeout);
  EXPECT_EQ(places.taken(), 0u);
}

TEST_F(FairTurnsTest, a_client_that_goes_is_removed_from_the_queue) {
  open(1);
  start_scheduler();
  {
    ShardScope here(far.shard);
    far.mortals.spawn("asker", asker(far.mortals.call(), far.mortals.call(), far, a, "a", 1_ms));
  }
  settle();
  EXPECT_EQ(a.depth(), 1u);
  {
    ShardScope here(far.shard);
    far.mortals.cancel(StopReason::client_gone);
  }
  settle();
  EXPECT_EQ(told, "a- ");
  EXPECT_EQ(a.depth(), 0u);
  EXPECT_EQ(places.taken(), 0u);
}

TEST_F(FairTurnsTest, who_asks_after_the_end_is_told_so) {
  open(1);
  hire(near);
  start_scheduler();
  settle();
  {
    ShardScope here(near.shard);
    near.turns->close();
  }
  ask(near, a, "a");
  settle();
  EXPECT_EQ(told, "a- ");
  EXPECT_EQ(last.code, ErrorCode::closed);
}

TEST_F(FairTurnsTest, the_end_of_the_queue_waits_for_letters_that_are_under_way) {
  open(1);
  start_scheduler();
  bool over = false;
  {
    ShardScope here(far.shard);
    far.mortals.spawn("asker", asker(far.mortals.call(), far.mortals.call(), far, a, "a", 1_ms));
  }
  settle();
  {
    ShardScope here(far.shard);
    far.mortals.cancel(StopReason::client_gone);
    far.turns->close();
    far.scope.spawn("end", await_end(far.scope.call(), far, over));
  }
  far.step();
  EXPECT_EQ(told, "a- ");
  EXPECT_FALSE(over) << "the scheduler has not answered its letter";
  settle();
  EXPECT_TRUE(over);
}

TEST_F(FairTurnsTest, a_grant_that_meets_a_client_that_has_gone_gives_its_slot_back) {
  open(1);
  hire(near);
  start_scheduler();
  settle();
  ask(near, b, "b", 5_ms);
  settle();
  ask(far, a, "a", 1_ms, 5_ms);  // its deadline is the moment of the grant
  run_for(5_ms);
  ask(near, b, "c");
  run_for(20_ms);
  EXPECT_TRUE(told == "b+ a- c+ " || told == "b+ a+ c+ ") << told;
}

TEST_F(FairTurnsTest, a_tenant_whose_slot_came_back_while_nobody_waited_is_looked_at_again) {
  open(2);
  hire(near);
  start_scheduler();
  settle();
  const auto run_near = [&](Duration by) {  // its mail waits
    ShardScope here(near.shard);
    near.shard.advance(near.shard.now() + by);
    while (!near.shard.idle()) near.shard.run_one();
  };
  ask(near, a, "a", 10_ms);
  {
    ShardScope here(far.shard);
    far.mortals.spawn("asker", asker(far.mortals.call(), far.mortals.call(), far, a, "x", 1_ms));
  }
  settle();
  EXPECT_EQ(a.depth(), 1u) << "it stepped aside: one of two slots is all that it may hold";
  {
    ShardScope here(far.shard);
    far.mortals.cancel(StopReason::client_gone);
    while (!far.shard.idle()) far.shard.run_one();
  }
  run_near(10_ms);
  EXPECT_EQ(scheduler.out(), 0u);
  {
    ShardScope here(near.shard);
    const auto one = near.turns->try_take({.cost = 1, .tenant = &b});
    const auto two = near.turns->try_take({.cost = 1, .tenant = &c});
    EXPECT_TRUE(one && two);
    ask(near, a, "y");
    run_near(0_ms);
    EXPECT_EQ(a.depth(), 2u) << "the scheduler has not heard that the other left";
  }
  settle();
  EXPECT_EQ(told, "a+ x- y+ ");
}

TEST_F(FairTurnsTest, a_turn_that_comes_after_the_deadline_is_none) {
  open(1);
  hire(far);
  start_scheduler();
  settle();
  ask(far, b, "b", 5_ms);
  ask(far, a, "a", 1_ms, 20_ms);
  settle();
  const auto advance = [&](Duration by) {
    ShardScope here(far.shard);
    far.shard.advance(far.shard.now() + by);
  };
  const auto run_one = [](Place& place) {
    ShardScope here(place.shard);
    place.mailbox.drain();
    if (!place.shard.idle()) place.shard.run_one();
  };
  advance(5_ms);
  for (int i = 0; i < 100 && far.turns->depth() > 0; ++i) {
    run_one(far);
    run_one(near);
  }
  ASSERT_EQ(far.turns->depth(), 0u);
  EXPECT_EQ(told, "b+ ") << "it has its turn, but has not run yet";
  advance(30_ms);
  settle();
  EXPECT_EQ(told, "b+ a- ");
  EXPECT_EQ(last.code, ErrorCode::timeout);
}

TEST_F(FairTurnsTest, nobody_passes_by_those_that_wait) {
  open(1);
  hire(near);
  settle();
  ask(near, a, "a", 5_ms);
  ask(far, b, "b");
  run_for(10_ms);
  EXPECT_EQ(told, "a+ ") << "the slot is free, but the scheduler is not there";
  ask(near, a, "c");
  settle();
  EXPECT_EQ(told, "a+ ");
  start_scheduler();
  hire(far, true);
  run_for(50_ms);
  EXPECT_NE(told.find("b+"), std::string::npos);
  EXPECT_NE(told.find("c+"), std::string::npos);
}

TEST_F(FairTurnsTest, with_the_workers_down_a_full_sched_drops_the_oldest_and_its_client_is_told) {
  open(4, 2);
  hire(near);
  start_scheduler();
  settle();
  for (int i = 0; i < 4; ++i) ask(near, i % 2 == 0 ? a : b, "h", 10_ms);  // every slot is taken
  settle();
  told.clear();
  for (int i = 0; i < 4; ++i) ask(far, i % 2 == 0 ? a : b, std::to_string(i), 1_ms);
  run_for(20_ms);
  EXPECT_EQ(told, "0- 2- ") << "the far shard has no worker: four grants, 0 2 1 3, for two places";
  EXPECT_EQ(dropped_far, 2);
  EXPECT_EQ(last.code, ErrorCode::degraded);
  hire(far);
  run_for(20_ms);
  EXPECT_EQ(told, "0- 2- 1+ 3+ ");
}

TEST_F(FairTurnsTest, a_worker_that_dies_takes_its_slots_with_it) {
  open(2);
  hire(far, true);
  start_scheduler();
  settle();
  EXPECT_EQ(scheduler.slots(), 2u);
  ask(near, a, "a", 30_ms);
  settle();
  {
    ShardScope here(far.shard);
    far.mortals.cancel(StopReason::aborted);
  }
  settle();
  EXPECT_EQ(scheduler.slots(), 0u);
  ask(near, b, "b");
  run_for(50_ms);
  EXPECT_EQ(told, "a+ ") << "what runs goes on; what waits waits";
  hire(near);
  settle();
  EXPECT_EQ(told, "a+ b+ ");
}

TEST_F(FairTurnsTest, a_scheduler_that_is_restarted_goes_on_with_what_waits) {
  open(1);
  start_scheduler();
  ask(far, a, "a");
  settle();
  {
    ShardScope here(near.shard);
    near.mortals.cancel(StopReason::aborted);
  }
  settle();
  hire(near);
  hire(far);
  settle();
  EXPECT_EQ(told, "");
  {
    ShardScope here(near.shard);
    near.scope.spawn("scheduler", scheduler.run(near.scope.call()));
  }
  settle();
  EXPECT_EQ(told, "a+ ");
}

TEST_F(FairTurnsTest, switched_off_it_is_first_come_first_served) {
  open(1);
  scheduler.set_enabled(false);
  start_scheduler();
  for (const char* name : {"a0", "a1", "a2"}) ask(near, a, name);
  settle();
  ask(near, b, "b0");
  settle();
  hire(near);
  run_for(100_ms);
  EXPECT_EQ(told, "a0+ a1+ a2+ b0+ ");
}

TEST_F(FairTurnsTest, switched_off_it_counts_what_each_tenant_has) {
  open(1);
  scheduler.set_enabled(false);
  start_scheduler();
  hire(near);
  settle();
  ask(near, a, "a", 10_ms);
  ask(near, b, "b", 10_ms);
  ask(far, b, "c", 10_ms);
  settle();
  EXPECT_EQ(a.held(), 1u);
  EXPECT_EQ(a.served(), 1u);
  EXPECT_EQ(b.held(), 0u);
  EXPECT_EQ(b.places.load(), 2u);
  run_for(15_ms);
  EXPECT_EQ(a.held(), 0u);
  EXPECT_EQ(b.held(), 1u);
  EXPECT_EQ(b.places.load(), 1u);
  EXPECT_EQ(b.served(), 1u);
}

TEST_F(FairTurnsTest, a_tenant_at_three_quarters_of_the_slots_waits_while_another_finds_one_free) {
  open(4);
  hire(near);
  start_scheduler();
  settle();
  for (int i = 0; i < 4; ++i) ask(near, a, "a", 50_ms);
  settle();
  EXPECT_EQ(told, "a+ a+ a+ ");
  ask(near, b, "b");
  settle();
  EXPECT_EQ(told, "a+ a+ a+ b+ ");
  run_for(60_ms);
  EXPECT_EQ(told, "a+ a+ a+ b+ a+ ");
}

}  // namespace
}  // namespace cairn
