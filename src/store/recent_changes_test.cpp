#include "store/recent_changes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace cairn::store {
namespace {

KvBatch batch_of(std::initializer_list<std::pair<const char*, const char*>> changes) {
  KvBatch batch;
  for (const auto& [key, value] : changes)
    if (value == nullptr)
      batch.remove(key);
    else
      batch.put(key, value);
  return batch;
}
using Found = std::optional<RecentChanges::Value>;
using Range = std::map<std::string, RecentChanges::Value>;

// Fails where the order is not that of the keys.
Range range_of(RecentChanges::AllSeen seen, std::string_view from, std::string_view until) {
  Range all;
  for (RecentRange range(std::move(seen), from, until); range.now() != nullptr; range.next()) {
    const auto value = range.now()->value();
    EXPECT_TRUE(all.empty() || all.rbegin()->first < range.now()->key());
    all.emplace_hint(all.end(), range.now()->key(),
                     value ? RecentChanges::Value(std::in_place, *value) : std::nullopt);
  }
  return all;
}
std::string key_of(std::uint64_t number) { return std::to_string(10'000'000 + number); }

TEST(RecentChanges, the_newest_change_of_a_key_is_found) {
  RecentChanges recent(1);
  EXPECT_EQ(recent.find("a"), Found());
  recent.add(batch_of({{"a", "1"}, {"b", "2"}}));
  recent.add(batch_of({{"a", "3"}, {"b", nullptr}}));
  EXPECT_EQ(recent.find("a"), Found("3"));
  EXPECT_EQ(recent.find("b"), Found(RecentChanges::Value())) << "removed is not unknown";
  EXPECT_EQ(recent.find("c"), Found());
}

TEST(RecentChanges, RC2_a_change_is_found_until_the_engine_has_it) {
  RecentChanges recent(1);
  recent.add(batch_of({{"a", "1"}, {"b", "1"}}));
  const auto given = recent.begin();
  ASSERT_NE(given, nullptr);
  recent.add(batch_of({{"b", "2"}, {"c", "2"}}));
  EXPECT_EQ(recent.find("a"), Found("1"));
  EXPECT_EQ(recent.find("b"), Found("2")) << "the newer one hides the one on its way";
  recent.end();
  EXPECT_EQ(recent.find("a"), Found());
  EXPECT_EQ(recent.find("b"), Found("2"));
}

TEST(RecentChanges, RC1_what_was_given_out_comes_again_until_it_ended) {
  RecentChanges recent(1);
  EXPECT_EQ(recent.begin(), nullptr);
  recent.add(batch_of({{"a", "1"}}));
  const auto first = recent.begin();
  recent.add(batch_of({{"a", "2"}}));
  EXPECT_EQ(recent.begin(), first) << "the older batch goes first";
  recent.end();
  const auto second = recent.begin();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->find("a")->value(), "2");
  recent.end();
  EXPECT_TRUE(recent.empty());
}

TEST(RecentChanges, a_range_is_in_order_and_shows_the_newest) {
  RecentChanges recent(1);
  recent.add(batch_of({{"c", "1"}, {"a", "1"}, {"b", "1"}, {"x", "1"}}));
  (void)recent.begin();
  recent.add(batch_of({{"b", nullptr}, {"bb", "2"}}));
  const Range want{{"a", "1"}, {"b", std::nullopt}, {"bb", "2"}, {"c", "1"}};
  EXPECT_EQ(range_of(recent.see(), "a", "x"), want);
  EXPECT_EQ(range_of(recent.see(), "b", "bb"), (Range{{"b", std::nullopt}}));
  EXPECT_EQ(range_of(recent.see(), "d", "e"), Range());
}

// What is seen is what the tables hold, and no copy of it, whether it is to be found or to be skipped.
TEST(RecentChanges, RC3_who_sees_copies_nothing_however_much_is_recent) {
  for (const bool removed : {false, true}) {
    RecentChanges recent(1);
    for (std::uint64_t i = 0; i < 50'000; ++i) {
      KvBatch batch;
      if (removed)
        batch.remove(key_of(i));
      else
        batch.put(key_of(i), "v");
      recent.add(batch);
    }
    auto seen = recent.see();
    ASSERT_TRUE(seen[0].sort());
    EXPECT_EQ(recent.keep(seen[0]), nullptr);
    const auto again = recent.see();
    const auto table = recent.begin();
    const auto closed = recent.see();
    for (const RecentChanges::Seen& one : {seen[0], again[0], closed[1]}) {
      EXPECT_EQ(one.changes.data(), table->changes().data());
      EXPECT_EQ(one.changes.size(), 50'000u);
      EXPECT_EQ(one.sorted, seen[0].sorted) << "sorted once";
    }
    EXPECT_TRUE(closed[0].changes.empty());
    RecentRange range(closed, key_of(7), key_of(9));
    ASSERT_NE(range.now(), nullptr);
    EXPECT_EQ(range.now()->key(), key_of(7));
    EXPECT_EQ(range.now()->value().has_value(), !removed);
  }
}

TEST(RecentChanges, a_lister_looks_through_few_that_are_not_sorted_and_each_is_sorted_few_times) {
  RecentChanges recent(1);
  std::uint64_t sorted = 0;
  constexpr std::uint64_t count = 50'000;
  for (std::uint64_t i = 0; i < count; ++i) {
    KvBatch batch;
    batch.put(key_of(i * 7919 % count), "v");
    recent.add(batch);
    auto seen = recent.see();
    if (seen[0].sort()) {
      sorted += seen[0].sorted->changes.size();
      (void)recent.keep(seen[0]);
    }
    ASSERT_LE(seen[0].unsorted().size(), 1024 + i / 8);
  }
  EXPECT_LT(sorted, 12 * count);
}

TEST(RecentChanges, a_range_is_what_a_map_was_when_it_was_seen) {
  std::mt19937_64 random(11);
  struct View {
    RecentChanges::AllSeen seen;
    Range model;
  };
  std::uint64_t kept = 0;
  for (int round = 0; round < 12; ++round) {
    RecentChanges recent(random());
    Range open, closed;
    std::vector<View> views;
    const std::uint64_t keys = round % 3 == 0 ? 40 : 6000;
    for (int step = 0; step < 20'000; ++step) {
      KvBatch batch;
      for (std::uint64_t i = random() % 3; i < 3; ++i) {
        const std::string key = key_of(random() % keys);
        if (random() % 3 == 0)
          batch.remove(key);
        else
          batch.put(key, std::string(random() % 12, static_cast<char>('a' + random() % 26)));
        open[key] = batch.changes().back().value;
      }
      recent.add(batch);
      if (random() % 3000 == 0 && recent.begin() != nullptr && closed.empty())
        closed = std::exchange(open, {});
      if (random() % 3000 == 0 && !closed.empty()) {
        (void)recent.end();
        closed.clear();
      }
      if (random() % 200 != 0) continue;
      View view{recent.see(), open};
      view.model.insert(closed.begin(), closed.end());
      for (RecentChanges::Seen& one : view.seen)
        if (one.table != nullptr && one.sort()) ++kept, (void)recent.keep(one);
      views.push_back(std::move(view));
    }
    for (const View& view : views) {
      const std::uint64_t first = random() % keys;
      const std::string from = key_of(first), until = key_of(first + 1 + random() % keys);
      const Range want(view.model.lower_bound(from), view.model.lower_bound(until));
      ASSERT_EQ(range_of(view.seen, from, until), want) << round;
    }
  }
  EXPECT_GT(kept, 20u);
}

TEST(RecentChanges, in_order_sorts_by_key) {
  RecentChanges recent(7);
  for (int i = 0; i < 1000; ++i) {
    KvBatch batch;
    batch.put(std::to_string(i * 7919 % 1000), "v");
    recent.add(std::move(batch));
  }
  const auto given = recent.begin();
  const auto sorted = in_order(given->changes());
  ASSERT_EQ(sorted.size(), 1000u);
  for (std::size_t i = 1; i < sorted.size(); ++i) EXPECT_LT(sorted[i - 1].key(), sorted[i].key());
}

TEST(RecentChanges, bytes_count_what_is_held) {
  RecentChanges recent(1);
  recent.add(batch_of({{"key", "0123456789"}}));
  const std::uint64_t one = recent.open_bytes();
  EXPECT_GT(one, 13u);
  (void)recent.begin();
  EXPECT_EQ(recent.open_bytes(), 0u);
  EXPECT_EQ(recent.bytes(), one);
  recent.add(batch_of({{"other", "0123456789"}}));
  EXPECT_EQ(recent.bytes(), 2 * one + 2);
  recent.end();
  EXPECT_EQ(recent.bytes(), one + 2);
}

}  // namespace
}  // namespace cairn::store
