#include "io/loop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "io/real_loop.h"
#include "runtime/wait.h"

namespace cairn::io {
namespace {

Task<> nap(Call call, Duration span, std::string* order, char name) {
  if (co_await sleep_for(call, span)) *order += name;
}
Task<> spin_until(Call call, const bool* done) {
  while (!*done && !call.stopped()) co_await yield(call);
}
Task<> hold_the_thread(Call call, Duration span) {
  co_await yield(call);
  const Instant until = current_shard()->precise_now() + span;
  while (current_shard()->precise_now() < until) {
  }
}
Task<Result<>> sleep_past(Call call, Duration span) { co_return co_await sleep_for(call, span); }

TEST(Loop, timers_fire_in_their_order) {
  RealLoop real;
  std::string order;
  real.spawn(nap(real.call(), Duration::millis(20), &order, 'c'));
  real.spawn(nap(real.call(), Duration::millis(1), &order, 'a'));
  real.spawn(nap(real.call(), Duration::millis(10), &order, 'b'));
  EXPECT_TRUE(real.turn_until([&] { return order.size() == 3; }));
  EXPECT_EQ(order, "abc");
}

TEST(Loop, a_timer_never_fires_early) {
  RealLoop real;
  // The shard's own now, which a timer counts from: the thread may be held up between the two.
  const Instant before = real.loop.shard().now();
  ShardScope here(real.loop.shard());
  EXPECT_TRUE(real.run(sleep_past(real.call(), Duration::millis(15))).has_value());
  EXPECT_GE(real.loop.shard().precise_now() - before, Duration::millis(15));
}

TEST(Loop, mail_from_another_thread_is_delivered_on_the_loops_own) {
  RealLoop real;
  std::thread::id delivered_on;
  const Shard* shard = nullptr;
  std::thread poster([&] {
    ASSERT_TRUE(real.loop.mailbox().try_post_call([&] {
      delivered_on = std::this_thread::get_id();
      shard = current_shard();
    }));
  });
  EXPECT_TRUE(real.turn_until([&] { return shard != nullptr; }));
  poster.join();
  EXPECT_EQ(delivered_on, std::this_thread::get_id());
  EXPECT_EQ(shard, &real.loop.shard());
}

TEST(Loop, a_task_that_never_waits_keeps_out_neither_mail_nor_timers) {
  RealLoop real;
  bool done = false;
  std::string order;
  real.spawn(spin_until(real.call(), &done));
  real.spawn(nap(real.call(), Duration::millis(2), &order, 't'));
  std::thread poster([&] { ASSERT_TRUE(real.loop.mailbox().try_post_call([&] { order += 'm'; })); });
  EXPECT_TRUE(real.turn_until([&] { return order.size() == 2; }));
  poster.join();
  done = true;
  EXPECT_TRUE(real.turn_until([&] { return real.scope.empty(); }));
}

Task<> ask_for_a_turn(Call call, std::optional<bool>* more) { *more = co_await next_turn(call); }

TEST(Loop, a_turn_that_finds_nothing_is_quiet_and_does_not_sleep) {
  RealLoop real;
  std::optional<bool> one, other;
  real.spawn(ask_for_a_turn(real.call(), &one));
  real.spawn(ask_for_a_turn(real.call(), &other));
  real.loop.turn(Duration::seconds(3600));  // one that slept would never come back
  EXPECT_FALSE(one.has_value());            // it has looked, and they are ready
  real.loop.turn(Duration::millis(0));
  EXPECT_EQ(one, false);
  EXPECT_EQ(other, false);  // who only waits for a turn makes it no less quiet
}

TEST(Loop, a_turn_that_finds_work_is_not_quiet) {
  RealLoop real;
  bool done = false;
  std::optional<bool> more;
  real.spawn(ask_for_a_turn(real.call(), &more));
  ASSERT_TRUE(real.loop.mailbox().try_post_call([&] { real.spawn(spin_until(real.call(), &done)); }));
  EXPECT_TRUE(real.turn_until([&] { return more.has_value(); }));
  EXPECT_EQ(more, true);
  done = true;
  EXPECT_TRUE(real.turn_until([&] { return real.scope.empty(); }));
}

TEST(Loop, stop_leaves_the_run) {
  RealLoop real;
  ASSERT_TRUE(real.loop.mailbox().try_post_call([&] { real.loop.stop(); }));
  real.loop.run();
  // And it can be run again.
  std::thread stopper([&] { ASSERT_TRUE(real.loop.mailbox().try_post_call([&] { real.loop.stop(); })); });
  real.loop.run();
  stopper.join();
}

TEST(Loop, a_turn_that_takes_too_long_is_counted) {
  RealLoop real;
  const std::uint64_t before = real.loop.stalls();
  real.spawn(hold_the_thread(real.call(), Duration::millis(11)));
  EXPECT_TRUE(real.turn_until([&] { return real.scope.empty(); }));
  EXPECT_GE(real.loop.stalls(), before + 1);
}

TEST(Loop, clocks_are_those_of_the_machine) {
  RealLoop real;
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  EXPECT_NEAR(static_cast<double>(real.loop.shard().wall().ms), static_cast<double>(now), 60'000);
  const Instant before = real.loop.shard().now();
  real.loop.turn(Duration::millis(1));
  EXPECT_GE(real.loop.shard().now(), before);
  EXPECT_GE(real.loop.shard().precise_now(), real.loop.shard().now());
}

}  // namespace
}  // namespace cairn::io
