#include "runtime/mailbox.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/driven_shard.h"

namespace cairn {
namespace {

struct Letter : MailItem {
  Letter(int n, std::vector<int>* to) : number(n), out(to) {
    deliver = [](MailItem& item) {
      auto& self = static_cast<Letter&>(item);
      self.out->push_back(self.number);
    };
  }
  int number;
  std::vector<int>* out;
};

TEST(Mailbox, items_are_delivered_once_in_the_order_of_posting) {
  DrivenShard d;
  Mailbox box([] {});
  std::vector<int> got;
  Letter a(1, &got), b(2, &got);
  box.post(a);
  box.post(b);
  EXPECT_EQ(box.drain(), 2u);
  EXPECT_EQ(box.drain(), 0u);
  box.post(a);
  EXPECT_EQ(box.drain(), 1u);
  EXPECT_EQ(got, (std::vector<int>{1, 2, 1}));
}

TEST(Mailbox, only_an_armed_owner_is_notified_and_only_once) {
  DrivenShard d;
  int notified = 0;
  Mailbox box([&] { ++notified; });
  std::vector<int> got;
  Letter a(1, &got), b(2, &got), c(3, &got);
  box.post(a);
  EXPECT_EQ(notified, 0);
  EXPECT_FALSE(box.arm());  // there is mail
  box.drain();
  EXPECT_TRUE(box.arm());
  box.post(a);
  box.post(b);
  EXPECT_EQ(notified, 1);
  box.drain();
  box.post(c);
  EXPECT_EQ(notified, 1);
  box.drain();
}

TEST(Mailbox, an_owner_that_wakes_for_another_reason_is_disarmed_by_drain) {
  DrivenShard d;
  int notified = 0;
  Mailbox box([&] { ++notified; });
  std::vector<int> got;
  Letter a(1, &got);
  ASSERT_TRUE(box.arm());
  EXPECT_EQ(box.drain(), 0u);
  box.post(a);
  EXPECT_EQ(notified, 0);
  EXPECT_EQ(box.drain(), 1u);
}

TEST(Mailbox, what_a_delivery_posts_waits_for_the_next_drain) {
  DrivenShard d;
  Mailbox box([] {});
  int runs = 0;
  std::function<void()> again = [&] {
    if (++runs < 3) ASSERT_TRUE(box.try_post_call(again).has_value());
  };
  ASSERT_TRUE(box.try_post_call(again).has_value());
  EXPECT_EQ(box.drain(), 1u);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(box.drain(), 1u);
  EXPECT_EQ(box.drain(), 1u);
  EXPECT_EQ(box.drain(), 0u);
}

TEST(Mailbox, calls_above_the_capacity_are_refused) {
  DrivenShard d;
  Mailbox box([] {}, 2);
  int runs = 0;
  EXPECT_TRUE(box.try_post_call([&] { ++runs; }).has_value());
  EXPECT_TRUE(box.try_post_call([&] { ++runs; }).has_value());
  EXPECT_EQ(box.try_post_call([&] { ++runs; }).error().code, ErrorCode::busy);
  box.drain();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(box.try_post_call([&] { ++runs; }).has_value());
  box.drain();
}

// The owner sleeps whenever arm() lets it; a lost wake-up would leave it asleep with mail.
TEST(Mailbox, no_wake_up_is_lost_between_threads) {
  DrivenShard d;
  constexpr int senders = 3, each = 3'000;
  Guarded<int, 0> signals(0);
  std::condition_variable rung;
  Mailbox box(
      [&] {
        signals.with([](int& count) { ++count; });
        rung.notify_one();
      },
      senders * each);
  int sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < senders; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < each; ++i) EXPECT_TRUE(box.try_post_call([&] { ++sum; }).has_value());
    });
  // The owner is a thread of its own with no shard, because it blocks.
  std::thread owner([&] {
    while (sum < senders * each) {
      box.drain();
      if (sum < senders * each && box.arm())
        signals.wait(rung, [](int& count) { return count > 0; }, [](int& count) { --count; });
    }
  });
  for (auto& thread : threads) thread.join();
  owner.join();
  EXPECT_EQ(sum, senders * each);
  box.drain();
}

}  // namespace
}  // namespace cairn
