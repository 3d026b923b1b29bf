#include "store/change_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/simulated_store.h"

namespace cairn::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Address numbered(unsigned char number) {
  Address address;
  address.bytes.fill(std::byte{number});
  return address;
}
Instant second(std::int64_t at) { return Instant{} + Duration::seconds(at); }

TEST(ChangeFeed, what_was_told_is_taken_once_and_in_order) {
  ChangeFeed feed(4);
  for (int round = 0; round < 5; ++round) {
    feed.tell(std::array{numbered(1), numbered(2)}, second(1));
    feed.tell(std::array{numbered(1)}, second(2));
    EXPECT_EQ(feed.depth().changes, 3u);
    EXPECT_EQ(feed.depth().oldest, second(1));
    const auto some = feed.take(2);
    EXPECT_THAT(some.changed, ElementsAre(numbered(1), numbered(2)));
    EXPECT_EQ(some.oldest, second(1));
    EXPECT_FALSE(some.all);
    EXPECT_EQ(feed.depth().oldest, second(2));
    EXPECT_THAT(feed.take(100).changed, ElementsAre(numbered(1)));
    EXPECT_THAT(feed.take(100).changed, IsEmpty());
    EXPECT_FALSE(feed.depth().oldest);
  }
}

TEST(ChangeFeed, more_than_it_has_room_for_is_told_as_anything_may_have_changed) {
  ChangeFeed feed(2);
  feed.tell(std::array{numbered(1)}, second(1));
  feed.tell(std::array{numbered(2), numbered(3)}, second(2));
  feed.tell(std::array{numbered(4)}, second(3));
  EXPECT_TRUE(feed.depth().all);
  EXPECT_EQ(feed.depth().dropped, 2u);
  const auto taken = feed.take(100);
  EXPECT_THAT(taken.changed, ElementsAre(numbered(1), numbered(2)));
  EXPECT_EQ(taken.all, second(2));
  const auto later = feed.take(100);
  EXPECT_FALSE(later.all);
  EXPECT_FALSE(feed.depth().all);
}

struct Reading {
  io::sim::World world{7};
  io::sim::Node& node = world.add_node("a", 2);
  ChangeFeed feed{4};
  std::vector<Address> taken;
  int waits = 0;
  bool ended = false;

  void read() {
    ShardScope here(node.shard());
    feed.listen(node.machine().mailbox);
    node.scope().spawn("reader", run(node.scope().call()));
  }
  Task<> run(Call call) {
    while (co_await feed.wait(call)) {
      ++waits;
      auto some = feed.take(100);
      taken.insert(taken.end(), some.changed.begin(), some.changed.end());
    }
    ended = true;
  }
  void tell(unsigned shard, unsigned char number) {
    ShardScope here(node.shard(shard));
    feed.tell(std::array{numbered(number)}, world.now());
  }
};

TEST(ChangeFeed, a_reader_that_waits_is_woken_by_a_committer_of_any_shard) {
  Reading r;
  r.read();
  r.world.run_for(Duration::millis(10));
  for (unsigned char i = 0; i < 6; ++i) {
    r.tell(i % 2, i);
    ASSERT_TRUE(r.world.run_until([&] { return r.taken.size() == i + 1u; }, Duration::seconds(1)));
    EXPECT_EQ(r.taken.back(), numbered(i));
  }
  EXPECT_EQ(r.waits, 6);
  r.world.stop();
  EXPECT_TRUE(r.ended);
}

TEST(ChangeFeed, a_feed_that_nobody_reads_holds_up_no_committer) {
  Reading r;
  for (unsigned char i = 0; i < 100; ++i) r.tell(1, i);
  EXPECT_EQ(r.feed.depth().changes, 4u);
  EXPECT_TRUE(r.feed.depth().all);
  r.read();
  ASSERT_TRUE(r.world.run_until([&] { return r.taken.size() == 4; }, Duration::seconds(1)));
  r.world.stop();
}

// --- what a store tells

struct Telling : SimulatedStore {
  ChangeFeed feed{64};
  Telling() {
    options.changed = &feed;
    CHECK(open().has_value());
  }
  std::vector<Address> news() { return feed.take(1'000).changed; }
};

TEST(ChangeFeed, a_store_tells_of_each_object_that_came_and_went_when_readers_see_it) {
  Telling s;
  EXPECT_THAT(s.news(), IsEmpty());
  const Address small = s.put(sample(100))->address;
  EXPECT_THAT(s.news(), ElementsAre(small));
  ASSERT_TRUE(s.put(sample(100)));  // is there
  ASSERT_TRUE(s.pin(small));
  ASSERT_TRUE(s.pin(small, false));
  EXPECT_THAT(s.news(), IsEmpty());
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, sample(5'000)));
  EXPECT_THAT(s.news(), IsEmpty());
  const Address made = s.commit(token)->address;
  EXPECT_THAT(s.news(), ElementsAre(made));
  ASSERT_TRUE(s.remove(small));
  ASSERT_TRUE(s.remove(made));
  EXPECT_THAT(s.news(), ElementsAre(small, made));
  EXPECT_FALSE(s.remove(small));
  EXPECT_THAT(s.news(), IsEmpty());
}

TEST(ChangeFeed, what_compaction_moves_is_no_news) {
  Telling s;
  std::vector<Address> kept;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Address address = s.put(sample(1 << 19, i))->address;
    if (i % 4 == 0)
      kept.push_back(address);
    else
      ASSERT_TRUE(s.remove(address));
  }
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  (void)s.news();
  const auto rounds = s.compact();
  ASSERT_TRUE(rounds);
  EXPECT_GT(*rounds, 0u);
  EXPECT_THAT(s.news(), IsEmpty());
  for (const Address& address : kept) EXPECT_TRUE(s.read(address));
}

TEST(ChangeFeed, bad_bytes_are_news_and_so_are_good_ones_in_their_place) {
  Telling s;
  const std::string bytes = sample(5'000);
  const Address address = s.put(bytes)->address;
  (void)s.news();
  const io::sim::Image image = s.disk().view();
  const auto segment =
      std::ranges::find_if(image.names, [](const auto& name) { return name.first.ends_with(".seg"); });
  ASSERT_NE(segment, image.names.end());
  const std::size_t at = image.text(segment->first).find(bytes.substr(0, 64));
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(s.disk().rot(segment->first, at + 10));
  EXPECT_EQ(code_of(s.read(address)), ErrorCode::integrity);
  EXPECT_THAT(s.news(), ElementsAre(address));
  EXPECT_TRUE(s.list().front().quarantined);
  ASSERT_TRUE(s.put(bytes));
  EXPECT_THAT(s.news(), ElementsAre(address));
  EXPECT_FALSE(s.list().front().quarantined);
}

}  // namespace
}  // namespace cairn::store
