#include "store/key_filter.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::store {
namespace {

TEST(KeyFilter, KF1_what_was_added_may_be_there) {
  KeyFilter filter(1000, 7);
  for (int i = 0; i < 5000; ++i) filter.add("key" + std::to_string(i));
  for (int i = 0; i < 5000; ++i) EXPECT_TRUE(filter.may_have("key" + std::to_string(i))) << i;
}

TEST(KeyFilter, at_capacity_it_is_wrong_about_one_key_in_a_hundred_at_most) {
  KeyFilter filter(10'000, 7);
  for (int i = 0; i < 10'000; ++i) filter.add("key" + std::to_string(i));
  int wrong = 0;
  for (int i = 0; i < 100'000; ++i) wrong += filter.may_have("other" + std::to_string(i)) ? 1 : 0;
  EXPECT_LT(wrong, 1000);
}

TEST(KeyFilter, it_is_full_when_it_has_twice_what_it_was_made_for) {
  KeyFilter filter(1000, 7);
  for (int i = 0; i < 10'000; ++i) filter.add("the same");
  for (int i = 0; i < 2000; ++i) filter.add(std::to_string(i));
  EXPECT_FALSE(filter.full());
  for (int i = 2000; i < 4000; ++i) filter.add(std::to_string(i));
  EXPECT_TRUE(filter.full());
}

TEST(KeyFilter, an_empty_one_has_nothing_and_takes_no_memory) {
  KeyFilter filter(1u << 20, 7);
  EXPECT_FALSE(filter.may_have(""));
  EXPECT_FALSE(filter.may_have("key"));
  EXPECT_EQ(filter.bytes(), 0u);
  filter.add("");
  EXPECT_TRUE(filter.may_have(""));
  EXPECT_EQ(filter.bytes(), 2u << 20);
}

TEST(KeyFilter, another_seed_is_wrong_about_other_keys) {
  KeyFilter one(100, 1), two(100, 2);
  for (int i = 0; i < 1000; ++i) {
    one.add(std::to_string(i));
    two.add(std::to_string(i));
  }
  int differ = 0;
  for (int i = 1000; i < 3000; ++i)
    differ += one.may_have(std::to_string(i)) != two.may_have(std::to_string(i)) ? 1 : 0;
  EXPECT_GT(differ, 100);
}

}  // namespace
}  // namespace cairn::store
