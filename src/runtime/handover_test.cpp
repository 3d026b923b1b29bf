#include "runtime/handover.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "runtime/driven_shard.h"

namespace cairn {
namespace {

struct Job : HandedOver {
  Job(const Call& call, int n) : HandedOver(call), number(n) {}
  int number;
};

struct Bench {
  DrivenShard driven;
  Permits places{2};
  Handover<Job> handover{driven.shard, places};
  std::string told;

  Task<> ask(Call call, int number) {
    Job job(call, number);
    const auto done = co_await handover.ask(job, [] {});
    told += std::to_string(number) + (done ? "+ " : "- ");
    if (!done) last = done.error().code;
  }
  Task<> work(Call call, Duration each, bool dies = false) {
    try {
      while (auto place = co_await handover.arrived(call)) {
        auto begun = handover.begin(*place);
        if (!begun) continue;
        (void)co_await sleep_for(call, each);
        if (dies) throw std::runtime_error("worker");
        begun.done();
      }
    } catch (const std::runtime_error&) {
    }
  }
  ErrorCode last = ErrorCode::ok;
};

TEST(Handover, jobs_are_done_in_the_order_they_came) {
  Bench bench;
  for (const int number : {1, 2}) bench.driven.scope.spawn("asker", bench.ask(bench.driven.call(), number));
  bench.driven.scope.spawn("worker", bench.work(bench.driven.call(), Duration::millis(1)));
  bench.driven.run();
  EXPECT_EQ(bench.told, "1+ 2+ ");
  EXPECT_EQ(bench.places.taken(), 0u);
  bench.handover.close();
  bench.driven.run();
}

TEST(Handover, a_full_queue_refuses_at_once) {
  Bench bench;
  for (const int number : {1, 2, 3})
    bench.driven.scope.spawn("asker", bench.ask(bench.driven.call(), number));
  bench.driven.settle();
  EXPECT_EQ(bench.told, "3- ");
  EXPECT_EQ(bench.last, ErrorCode::busy);
  bench.driven.scope.spawn("worker", bench.work(bench.driven.call(), Duration::millis(1)));
  bench.driven.run();
  EXPECT_EQ(bench.told, "3- 1+ 2+ ");
  bench.handover.close();
  bench.driven.run();
}

TEST(Handover, what_waited_too_long_is_never_begun_and_its_place_comes_back_with_the_worker) {
  Bench bench;
  bench.driven.scope.spawn("asker", bench.ask(bench.driven.call().within(Duration::millis(5)), 1));
  bench.driven.run_for(Duration::millis(50));
  EXPECT_EQ(bench.told, "1- ");
  EXPECT_EQ(bench.last, ErrorCode::timeout);
  EXPECT_EQ(bench.places.taken(), 1u) << "the place is in the queue still";
  bench.driven.scope.spawn("worker", bench.work(bench.driven.call(), Duration::millis(1)));
  bench.driven.run();
  EXPECT_EQ(bench.places.taken(), 0u);
  EXPECT_EQ(bench.told, "1- ");
  bench.handover.close();
  bench.driven.run();
}

TEST(Handover, an_asker_whose_time_is_up_waits_for_the_worker_that_has_its_job) {
  Bench bench;
  bench.driven.scope.spawn("asker", bench.ask(bench.driven.call().within(Duration::millis(5)), 1));
  bench.driven.scope.spawn("worker", bench.work(bench.driven.call(), Duration::millis(20)));
  bench.driven.run_for(Duration::millis(10));
  EXPECT_EQ(bench.told, "");
  bench.driven.run();
  EXPECT_EQ(bench.told, "1+ ");
  bench.handover.close();
  bench.driven.run();
}

TEST(Handover, a_worker_that_dies_lets_its_asker_go_with_an_error) {
  Bench bench;
  bench.driven.scope.spawn("asker", bench.ask(bench.driven.call(), 1));
  bench.driven.scope.spawn("worker", bench.work(bench.driven.call(), Duration::millis(1), true));
  bench.driven.run();
  EXPECT_EQ(bench.told, "1- ");
  EXPECT_EQ(bench.last, ErrorCode::internal);
  EXPECT_EQ(bench.places.taken(), 0u);
}

TEST(Handover, after_close_nothing_is_taken_in) {
  Bench bench;
  bench.handover.close();
  bench.driven.scope.spawn("asker", bench.ask(bench.driven.call(), 1));
  bench.driven.run();
  EXPECT_EQ(bench.last, ErrorCode::closed);
  EXPECT_EQ(bench.places.taken(), 0u);
}

}  // namespace
}  // namespace cairn
