#include "store/budget.h"

#include <gtest/gtest.h>

namespace cairn::store {
namespace {

constexpr Taker one_alone{.slot = 1, .contested = false}, one{.slot = 1, .contested = true},
    other{.slot = 2, .contested = true};

TEST(ByteBudget, an_address_alone_has_everything) {
  ByteBudget budget(800);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(budget.try_take(100, one_alone));
  EXPECT_FALSE(budget.try_take(100, one_alone));
  EXPECT_EQ(budget.left(), 0);
}

TEST(ByteBudget, while_another_asks_an_address_has_half) {
  ByteBudget budget(800);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(budget.try_take(100, one));
  EXPECT_FALSE(budget.try_take(100, one));
  EXPECT_TRUE(budget.try_take(100, other));
}

TEST(ByteBudget, who_has_little_finds_room_beyond_what_another_took) {
  ByteBudget budget(800);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(budget.try_take(100, one_alone));
  EXPECT_TRUE(budget.try_take(60, other));
  EXPECT_TRUE(budget.try_take(40, other));
  EXPECT_FALSE(budget.try_take(1, other));  // the eighth is the bound
  EXPECT_FALSE(budget.try_take(1));         // and nobody's without a share
  EXPECT_EQ(budget.left(), -100);
}

TEST(ByteBudget, one_body_may_be_larger_than_half) {
  ByteBudget budget(800);
  EXPECT_TRUE(budget.try_take(700, one));
  EXPECT_FALSE(budget.try_take(1, one));
}

TEST(ByteBudget, what_goes_is_given_back_to_its_address) {
  ByteBudget budget(800);
  {
    ASSERT_TRUE(budget.try_take(400, one));
    BudgetHold hold(budget, 400, one.slot), taken(std::move(hold));
    EXPECT_FALSE(budget.try_take(1, one));
  }
  EXPECT_EQ(budget.left(), 800);
  EXPECT_TRUE(budget.try_take(400, one));
}

TEST(ByteBudget, what_is_refused_takes_nothing) {
  ByteBudget budget(800);
  ASSERT_TRUE(budget.try_take(400, one));
  EXPECT_FALSE(budget.try_take(100, one));
  EXPECT_FALSE(budget.try_take(1000, other));
  EXPECT_EQ(budget.left(), 400);
  budget.give(400, one.slot);
  EXPECT_TRUE(budget.try_take(400, other));
}

}  // namespace
}  // namespace cairn::store
