#include "store/recent_changes.h"

#include <gtest/gtest.h>

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
  const std::map<std::string, RecentChanges::Value> want{
      {"a", "1"}, {"b", std::nullopt}, {"bb", "2"}, {"c", "1"}};
  EXPECT_EQ(recent.range("a", "x"), want);
}

TEST(RecentChanges, in_order_sorts_by_key) {
  RecentChanges recent(7);
  for (int i = 0; i < 1000; ++i) {
    KvBatch batch;
    batch.put(std::to_string(i * 7919 % 1000), "v");
    recent.add(std::move(batch));
  }
  const auto given = recent.begin();
  const auto sorted = in_order(*given);
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
