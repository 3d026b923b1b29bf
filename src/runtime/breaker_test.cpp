#include "runtime/breaker.h"

#include <gtest/gtest.h>

#include <deque>

#include "runtime/random.h"

namespace cairn {
namespace {

using State = Breaker::State;
using Verdict = Breaker::Verdict;

struct Clock {
  Instant now = Instant{} + Duration::seconds(100);
  void pass(Duration time) { now = now + time; }
};

// One request that ends at once.
bool ask(Breaker& breaker, const Clock& clock, Verdict verdict) {
  auto one = breaker.try_begin(clock.now);
  if (!one) return false;
  one->end(verdict, clock.now);
  return true;
}
void open_it(Breaker& breaker, const Clock& clock) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(ask(breaker, clock, Verdict::failed));
  ASSERT_EQ(breaker.state(), State::open);
}

TEST(Breaker, opens_at_the_fifth_failure_in_a_row_and_not_before) {
  Clock clock;
  Breaker breaker;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(ask(breaker, clock, Verdict::failed));
    ASSERT_TRUE(ask(breaker, clock, Verdict::good));
    clock.pass(Duration::seconds(11));  // the ratio forgets
  }
  EXPECT_EQ(breaker.state(), State::closed);
  open_it(breaker, clock);
  EXPECT_FALSE(ask(breaker, clock, Verdict::good));
}

TEST(Breaker, opens_at_half_of_twenty_within_the_window) {
  Clock clock;
  Breaker breaker;
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(ask(breaker, clock, Verdict::failed));
    ASSERT_TRUE(ask(breaker, clock, Verdict::good));
  }
  EXPECT_EQ(breaker.state(), State::closed);  // of eighteen
  ASSERT_TRUE(ask(breaker, clock, Verdict::good));
  ASSERT_TRUE(ask(breaker, clock, Verdict::failed));
  EXPECT_EQ(breaker.state(), State::open);
}

TEST(Breaker, failures_beyond_the_window_are_forgotten) {
  Clock clock;
  Breaker breaker;
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(ask(breaker, clock, Verdict::wrong));
    clock.pass(Duration::seconds(1));
  }
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(ask(breaker, clock, Verdict::good));
  ASSERT_TRUE(ask(breaker, clock, Verdict::wrong));
  EXPECT_EQ(breaker.state(), State::closed);
}

TEST(Breaker, failures_of_long_ago_do_not_open_it) {
  Clock clock;
  Breaker breaker;
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(ask(breaker, clock, Verdict::wrong));
  clock.pass(Duration::seconds(60));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(ask(breaker, clock, Verdict::good));
  ASSERT_TRUE(ask(breaker, clock, Verdict::wrong));
  EXPECT_EQ(breaker.state(), State::closed);
}

TEST(Breaker, a_wrong_answer_counts_in_the_ratio_alone) {
  Clock clock;
  Breaker breaker;
  for (int i = 0; i < 19; ++i) ASSERT_TRUE(ask(breaker, clock, Verdict::wrong));
  EXPECT_EQ(breaker.state(), State::closed);
  ASSERT_TRUE(ask(breaker, clock, Verdict::wrong));
  EXPECT_EQ(breaker.state(), State::open);
}

TEST(Breaker, no_verdict_is_no_failure) {
  Clock clock;
  Breaker breaker;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ask(breaker, clock, Verdict::none));
  EXPECT_EQ(breaker.state(), State::closed);
}

// BK-1
TEST(Breaker, nothing_begins_before_the_cooldown_is_over_and_then_so_many_probes) {
  Clock clock;
  Breaker breaker;
  open_it(breaker, clock);
  clock.pass(Duration::millis(999));
  EXPECT_FALSE(breaker.try_begin(clock.now).has_value());
  clock.pass(Duration::millis(1));
  std::deque<Breaker::Try> probes;
  for (int i = 0; i < 3; ++i) probes.push_back(*breaker.try_begin(clock.now));
  EXPECT_EQ(breaker.state(), State::half_open);
  EXPECT_FALSE(breaker.try_begin(clock.now).has_value());
  for (Breaker::Try& probe : probes) probe.end(Verdict::good, clock.now);
  EXPECT_EQ(breaker.state(), State::closed);
  EXPECT_TRUE(ask(breaker, clock, Verdict::good));
}

TEST(Breaker, a_failed_probe_doubles_the_cooldown_up_to_thirty_seconds) {
  Clock clock;
  Breaker breaker;
  open_it(breaker, clock);
  for (const int seconds : {1, 2, 4, 8, 16, 30, 30}) {
    EXPECT_EQ(breaker.opens_until() - clock.now, Duration::seconds(seconds));
    clock.now = breaker.opens_until();
    ASSERT_TRUE(ask(breaker, clock, Verdict::failed));
    ASSERT_EQ(breaker.state(), State::open);
  }
  clock.now = breaker.opens_until();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ask(breaker, clock, Verdict::good));
  open_it(breaker, clock);
  EXPECT_EQ(breaker.opens_until() - clock.now, Duration::seconds(1));
}

// BK-2
TEST(Breaker, who_began_before_the_last_change_changes_nothing) {
  Clock clock;
  Breaker breaker;
  auto early = breaker.try_begin(clock.now), late = breaker.try_begin(clock.now);
  open_it(breaker, clock);
  early->end(Verdict::good, clock.now);
  EXPECT_EQ(breaker.state(), State::open);
  clock.now = breaker.opens_until();
  auto probe = breaker.try_begin(clock.now);
  late->end(Verdict::failed, clock.now);
  EXPECT_EQ(breaker.state(), State::half_open);
  probe->end(Verdict::failed, clock.now);
  EXPECT_EQ(breaker.state(), State::open);
}

// BK-3
TEST(Breaker, a_probe_without_a_verdict_gives_its_place_back) {
  Clock clock;
  Breaker breaker;
  open_it(breaker, clock);
  clock.now = breaker.opens_until();
  for (int i = 0; i < 10; ++i) {
    auto one = breaker.try_begin(clock.now), two = breaker.try_begin(clock.now),
         three = breaker.try_begin(clock.now);
    ASSERT_TRUE(one && two && three);  // each is dropped
  }
  EXPECT_EQ(breaker.state(), State::half_open);
}

// BK-4
TEST(Breaker, what_lasts_holds_no_place_and_is_counted_all_the_same) {
  Clock clock;
  Breaker breaker;
  const auto let_lasting_in = [&] {
    std::deque<Breaker::Try> lasting;
    for (int i = 0; i < 10; ++i) {
      auto one = breaker.try_begin(clock.now);
      EXPECT_TRUE(one.has_value());
      if (!one) break;
      one->give_place_back();
      one->give_place_back();  // changes nothing
      lasting.push_back(std::move(*one));
    }
    return lasting;
  };
  open_it(breaker, clock);
  clock.now = breaker.opens_until();
  std::deque<Breaker::Try> lasting = let_lasting_in();
  for (int i = 0; i < 2; ++i) lasting[static_cast<std::size_t>(i)].end(Verdict::good, clock.now);
  EXPECT_EQ(breaker.state(), State::half_open);
  EXPECT_TRUE(ask(breaker, clock, Verdict::good)) << "there is a place for the third";
  EXPECT_EQ(breaker.state(), State::closed);
  lasting[2].end(Verdict::failed, clock.now);
  EXPECT_EQ(breaker.state(), State::closed) << "it began before the change";

  open_it(breaker, clock);
  clock.now = breaker.opens_until();
  lasting = let_lasting_in();
  lasting[0].end(Verdict::wrong, clock.now);
  EXPECT_EQ(breaker.state(), State::open);
}

TEST(Breaker, it_is_shut_only_until_its_cooldown_is_over) {
  Clock clock;
  Breaker breaker;
  EXPECT_FALSE(breaker.is_shut(clock.now));
  open_it(breaker, clock);
  EXPECT_TRUE(breaker.is_shut(clock.now));
  EXPECT_FALSE(breaker.is_shut(breaker.opens_until()));
  EXPECT_EQ(breaker.state(), State::open) << "nobody has asked yet";
}

TEST(Breaker, a_window_of_another_length_is_counted_from_its_beginning) {
  Clock clock;
  Breaker breaker({.window = Duration::seconds(1)});
  ASSERT_TRUE(ask(breaker, clock, Verdict::good));
  breaker.set_policy({.window = Duration::seconds(10)});
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(ask(breaker, clock, Verdict::wrong));
  clock.pass(Duration::seconds(20));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(ask(breaker, clock, Verdict::good));
  ASSERT_TRUE(ask(breaker, clock, Verdict::wrong));
  EXPECT_EQ(breaker.state(), State::closed) << "what is older than the window is forgotten";
}

TEST(Breaker, another_cooldown_does_not_go_on_where_the_last_had_come) {
  Clock clock;
  Breaker breaker;
  open_it(breaker, clock);
  for (int i = 0; i < 6; ++i) {
    clock.now = breaker.opens_until();
    ASSERT_TRUE(ask(breaker, clock, Verdict::failed));
  }
  ASSERT_EQ(breaker.opens_until() - clock.now, Duration::seconds(30));
  breaker.set_policy({.cooldown = Duration::millis(100)});
  EXPECT_EQ(breaker.opens_until() - clock.now, Duration::seconds(30)) << "the one that runs is kept";
  clock.now = breaker.opens_until();
  ASSERT_TRUE(ask(breaker, clock, Verdict::failed));
  EXPECT_EQ(breaker.opens_until() - clock.now, Duration::millis(200));
}

// Whatever happens, it refuses only while it is open or so many probes are out, and it comes back to a peer
// that is well.
TEST(Breaker, any_order_of_events_leaves_it_able_to_close) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    Clock clock;
    Breaker breaker;
    std::deque<Breaker::Try> out;
    for (int i = 0; i < 400; ++i) {
      switch (random.below(5)) {
        case 4:
          if (!out.empty()) out[random.below(out.size())].give_place_back();
          break;
        case 0:
          clock.pass(Duration::millis(static_cast<std::int64_t>(random.below(800))));
          break;
        case 1:
          if (!out.empty()) {
            const std::size_t which = random.below(out.size());
            out[which].end(static_cast<Verdict>(random.below(4)), clock.now);
          }
          break;
        default:
          if (auto one = breaker.try_begin(clock.now)) {
            out.push_back(std::move(*one));
            ASSERT_TRUE(breaker.state() != State::open);
          } else {
            ASSERT_TRUE(breaker.state() != State::closed);
          }
      }
    }
    out.clear();
    clock.pass(Duration::seconds(31));
    for (int i = 0; i < 3; ++i) (void)ask(breaker, clock, Verdict::good);
    EXPECT_EQ(breaker.state(), State::closed) << seed;
  }
}

}  // namespace
}  // namespace cairn
