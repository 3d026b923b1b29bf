#include "runtime/errand.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/scope.h"

namespace cairn {
namespace {

struct Job : Errand<Job, int> {
  Job(int n, std::atomic<int>& count) : number(n), alive(count) { ++alive; }
  ~Job() { --alive; }
  int number;
  std::atomic<int>& alive;
};
using Jobs = ErrandHome<Job>;

// A shard with its mail, by hand or by a thread that blocks on the bell.
struct Place {
  Guarded<int, 0> rings{0};
  std::condition_variable bell;
  Shard shard;
  Mailbox mailbox{[this] {
    rings.with([](int& count) { ++count; });
    bell.notify_one();
  }};
  Scope scope{shard};

  void settle() {
    ShardScope here(shard);
    while (!shard.idle()) shard.run_one();
  }
  void take_mail() {
    {
      ShardScope here(shard);
      mailbox.drain();
    }
    settle();
  }
  void cancel() {
    {
      ShardScope here(shard);
      scope.cancel(StopReason::client_gone);
    }
    settle();
  }
  // Runs until the scope is empty.
  void run() {
    while (!scope.empty()) {
      take_mail();
      if (scope.empty() || !shard.idle() || !mailbox.arm()) continue;
      rings.wait(bell, [](int& count) { return count > 0; }, [](int& count) { --count; });
    }
  }
};

struct Asked {
  std::optional<Result<int>> answer;
  ErrorCode code() const { return answer->error().code; }
};

Task<> ask(Call call, Jobs* jobs, std::unique_ptr<Job> job, Mailbox* from, Permits* places, Asked* out) {
  out->answer = co_await jobs->ask(call, std::move(job), *from, places);
}

class ErrandTest : public testing::Test {
 protected:
  ~ErrandTest() override {
    home.take_mail();
    jobs.reset();
    away.take_mail();
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(places.taken(), 0u);
  }
  void send(Place& from, int number, Asked& out, Instant deadline = Instant::never()) {
    {
      ShardScope here(from.shard);
      from.scope.spawn(
          "asker", ask(from.scope.call().by(deadline), &*jobs, make(number), &from.mailbox, &places, &out));
    }
    from.settle();
  }
  Result<> leave(Place& from, int number) {
    ShardScope here(from.shard);
    return jobs->leave(make(number), from.mailbox, &places);
  }
  // What home begins now, if anything.
  Job* begin() {
    ShardScope here(home.shard);
    Job* job = jobs->next();
    if (job != nullptr) jobs->take(*job);
    return job;
  }
  void answer(Job& job) {
    {
      ShardScope here(home.shard);
      job.result = job.number * 10;
      jobs->answer(job);
    }
    home.settle();
  }
  void close() {
    ShardScope here(home.shard);
    jobs->close();
  }
  std::unique_ptr<Job> make(int number) { return std::make_unique<Job>(number, alive); }

  std::atomic<int> alive{0};
  Permits places{3};
  Place home, away;
  std::optional<Jobs> jobs{std::in_place, home.shard, home.mailbox, Jobs::Words{"full", "closed"}};
};

TEST_F(ErrandTest, is_answered_on_the_shard_that_asked) {
  Asked asked;
  send(away, 7, asked);
  EXPECT_EQ(begin(), nullptr);
  home.take_mail();
  Job* job = begin();
  ASSERT_NE(job, nullptr);
  answer(*job);
  EXPECT_FALSE(asked.answer);
  away.take_mail();
  EXPECT_EQ(asked.answer, Result<int>(70));
}

TEST_F(ErrandTest, at_home_nothing_is_carried) {
  Asked asked;
  send(home, 7, asked);
  Job* job = begin();
  ASSERT_NE(job, nullptr);
  answer(*job);
  EXPECT_EQ(asked.answer, Result<int>(70));
  EXPECT_FALSE(home.mailbox.has_mail());
}

// [E-2]
TEST_F(ErrandTest, withdrawn_before_home_came_to_it_is_never_begun) {
  for (Place* from : {&home, &away}) {
    Asked asked;
    send(*from, 1, asked);
    home.take_mail();
    from->cancel();
    EXPECT_EQ(asked.code(), ErrorCode::cancelled);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(begin(), nullptr);
    away.take_mail();
    EXPECT_EQ(alive, 0);
  }
}

TEST_F(ErrandTest, withdrawn_on_its_way_is_never_begun) {
  Asked asked;
  send(away, 1, asked);
  away.cancel();
  home.take_mail();
  EXPECT_EQ(begin(), nullptr);
}

TEST_F(ErrandTest, withdrawn_after_it_was_taken_is_dropped_where_it_was_asked) {
  Asked asked;
  send(away, 1, asked);
  home.take_mail();
  Job* job = begin();
  ASSERT_NE(job, nullptr);
  away.cancel();
  EXPECT_EQ(asked.code(), ErrorCode::cancelled);
  answer(*job);
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(places.taken(), 1u);
  away.take_mail();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(places.taken(), 0u);
}

TEST_F(ErrandTest, an_answer_that_meets_the_cancel_is_not_lost) {
  Asked asked;
  send(away, 4, asked);
  home.take_mail();
  answer(*begin());
  {
    ShardScope here(away.shard);
    away.scope.cancel(StopReason::client_gone);  // it is woken, but has not run
  }
  away.take_mail();
  EXPECT_EQ(asked.answer, Result<int>(40));
}

TEST_F(ErrandTest, one_whose_deadline_passed_is_never_begun) {
  Asked asked;
  Asked later;
  send(away, 1, asked, Instant{} + Duration::seconds(1));
  send(away, 2, later, Instant{} + Duration::seconds(2));
  home.take_mail();
  {
    ShardScope here(home.shard);
    home.shard.advance(Instant{} + Duration::seconds(1));
  }
  Job* job = begin();
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->number, 2);
  answer(*job);
  away.take_mail();
  EXPECT_EQ(asked.code(), ErrorCode::timeout);
  EXPECT_TRUE(is_late_errand(asked.answer->error()));
  EXPECT_EQ(later.answer, Result<int>(20));
}

// [E-4]
TEST_F(ErrandTest, are_begun_in_the_order_they_came) {
  ASSERT_TRUE(leave(home, 1));
  ASSERT_TRUE(leave(away, 2));
  home.take_mail();
  ASSERT_TRUE(leave(home, 3));
  for (int number = 1; number <= 3; ++number) {
    Job* job = begin();
    ASSERT_NE(job, nullptr);
    EXPECT_EQ(job->number, number);
    answer(*job);
  }
}

TEST_F(ErrandTest, those_put_back_are_the_next) {
  for (int number = 1; number <= 3; ++number) ASSERT_TRUE(leave(home, number));
  List<Job, ErrandLink> again;
  again.push_back(*begin());
  again.push_back(*begin());
  jobs->put_back(again);
  EXPECT_TRUE(again.empty());
  for (int number = 1; number <= 3; ++number) {
    Job* job = begin();
    ASSERT_NE(job, nullptr);
    EXPECT_EQ(job->number, number);
    answer(*job);
  }
}

TEST_F(ErrandTest, one_that_nobody_waits_for_is_done_and_gone) {
  for (Place* from : {&home, &away}) {
    ASSERT_TRUE(leave(*from, 5));
    home.take_mail();
    Job* job = begin();
    ASSERT_NE(job, nullptr);
    answer(*job);
    away.take_mail();
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(places.taken(), 0u);
  }
}

TEST_F(ErrandTest, without_a_place_it_is_refused) {
  for (int number = 1; number <= 3; ++number) ASSERT_TRUE(leave(home, number));
  Asked asked;
  send(away, 4, asked);
  EXPECT_EQ(asked.code(), ErrorCode::busy);
  EXPECT_EQ(leave(home, 5).error().code, ErrorCode::busy);
  EXPECT_EQ(alive, 3);
  answer(*begin());
  EXPECT_TRUE(leave(home, 6));
}

// [E-3]
TEST_F(ErrandTest, a_closed_home_refuses_what_waits_and_what_comes) {
  Asked waits;
  Asked travels;
  Asked comes;
  send(away, 1, waits);
  home.take_mail();
  send(away, 2, travels);
  close();
  home.take_mail();
  away.take_mail();
  send(home, 3, comes);
  EXPECT_TRUE(leave(home, 4));
  EXPECT_EQ(begin(), nullptr);
  for (const Asked* asked : {&waits, &travels, &comes}) EXPECT_EQ(asked->code(), ErrorCode::draining);
  EXPECT_EQ(alive, 0);
}

TEST_F(ErrandTest, a_home_that_goes_drops_what_nobody_waits_for_and_refuses_the_rest) {
  Asked near;
  Asked far;
  send(home, 1, near);
  send(away, 2, far);
  ASSERT_TRUE(leave(away, 3));
  home.take_mail();
  jobs.reset();
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(places.taken(), 2u);
  home.settle();
  away.take_mail();
  EXPECT_EQ(near.code(), ErrorCode::draining);
  EXPECT_EQ(far.code(), ErrorCode::draining);
}

Task<> serve(Call call, Jobs* jobs, bool* ended) {
  while (co_await jobs->arrived(call))
    while (Job* job = jobs->next()) {
      jobs->take(*job);
      job->result = job->number;
      co_await yield(call);
      jobs->answer(*job);
    }
  *ended = true;
}

TEST_F(ErrandTest, a_home_that_is_stopped_ends_when_nothing_waits) {
  bool ended = false;
  ASSERT_TRUE(leave(home, 2));  // home has not begun to wait
  home.scope.spawn("home", serve(home.scope.call(), &*jobs, &ended));
  home.settle();
  EXPECT_EQ(alive, 0);
  Asked asked;
  send(home, 3, asked);
  EXPECT_EQ(asked.answer, Result<int>(3));
  EXPECT_FALSE(ended);
  ASSERT_TRUE(leave(home, 4));
  home.cancel();
  EXPECT_TRUE(ended);
  EXPECT_EQ(alive, 0);
}

TEST_F(ErrandTest, those_that_wait_are_counted) {
  Asked near;
  Asked far;
  send(home, 1, near);
  send(away, 2, far);
  EXPECT_EQ(jobs->waiting(), 1u);
  home.take_mail();
  EXPECT_EQ(jobs->waiting(), 2u);
  List<Job, ErrandLink> again;
  again.push_back(*begin());
  EXPECT_EQ(jobs->waiting(), 1u);
  jobs->put_back(again);
  EXPECT_EQ(jobs->waiting(), 2u);
  away.cancel();
  answer(*begin());
  EXPECT_EQ(begin(), nullptr);  // the other was withdrawn
  EXPECT_EQ(jobs->waiting(), 0u);
  ASSERT_TRUE(leave(home, 3));
  EXPECT_EQ(jobs->waiting(), 1u);
  close();
  EXPECT_EQ(jobs->waiting(), 0u);
}

// An asker whose calls are cut short now and then: at home, on their way, or on their way back.
Task<> ask_often(Call call, Jobs* jobs, Place* from, Permits* places, std::atomic<int>* alive, int* sum) {
  for (int i = 1; i <= 2'000; ++i) {
    Scope inner(from->shard, call);
    Asked asked;
    inner.spawn("asker",
                ask(inner.call(), jobs, std::make_unique<Job>(i, *alive), &from->mailbox, places, &asked));
    co_await yield(call);
    if (i % 3 == 0) inner.cancel(StopReason::client_gone);
    co_await inner.join_all(call);
    if (i % 3 == 0) continue;
    EXPECT_EQ(asked.answer, Result<int>(i));
    if (asked.answer == Result<int>(i)) ++*sum;
  }
}

// The last one to end stops home.
Task<> count_out(Task<> work, std::atomic<int>* left, Place* home) {
  co_await std::move(work);
  if (--*left == 0)
    EXPECT_TRUE(home->mailbox.try_post_call([home] { home->scope.cancel(StopReason::draining); }));
}

TEST(ErrandThreads, every_errand_of_two_shards_is_answered_once_or_dropped) {
  std::atomic<int> alive{0};
  std::atomic<int> left{2};
  Permits places(1'000'000);
  Place home, one, two;
  Jobs jobs(home.shard, home.mailbox, {"full", "closed"});
  bool ended = false;
  std::array<int, 2> sums{};
  home.scope.spawn("home", serve(home.scope.call(), &jobs, &ended));
  std::vector<std::thread> threads;
  threads.emplace_back([&] { home.run(); });
  for (std::size_t i = 0; i < 2; ++i) {
    Place* from = i == 0 ? &one : &two;
    from->scope.spawn(
        "asker",
        count_out(ask_often(from->scope.call(), &jobs, from, &places, &alive, &sums[i]), &left, &home));
    threads.emplace_back([from] { from->run(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(ended);
  home.take_mail();
  jobs.close();
  one.take_mail();
  two.take_mail();
  EXPECT_EQ(sums, (std::array<int, 2>{1'334, 1'334}));
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(places.taken(), 0u);
}

TEST(ErrandThreads, a_home_that_closes_meanwhile_refuses_the_rest) {
  std::atomic<int> alive{0};
  Permits places(1'000'000);
  Place home, away;
  Jobs jobs(home.shard, home.mailbox, {"full", "closed"});
  std::vector<Asked> asked(500);
  for (std::size_t i = 0; i < asked.size(); ++i)
    away.scope.spawn("asker", ask(away.scope.call(), &jobs, std::make_unique<Job>(static_cast<int>(i), alive),
                                  &away.mailbox, &places, &asked[i]));
  std::thread other([&] { away.run(); });
  int begun = 0;
  while (begun < 100) {
    home.take_mail();
    ShardScope here(home.shard);
    for (Job* job = jobs.next(); job != nullptr && begun < 100; job = jobs.next(), ++begun) {
      jobs.take(*job);
      job->result = job->number;
      jobs.answer(*job);
    }
  }
  {
    ShardScope here(home.shard);
    jobs.close();
  }
  std::atomic<bool> over{false};
  std::thread mail([&] {
    while (!over) home.take_mail();
  });
  other.join();
  over = true;
  mail.join();
  int done = 0;
  for (const Asked& one : asked) {
    ASSERT_TRUE(one.answer);
    if (*one.answer)
      ++done;
    else
      EXPECT_EQ(one.code(), ErrorCode::draining);
  }
  EXPECT_EQ(done, begun);
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace cairn
