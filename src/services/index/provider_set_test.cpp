#include "services/index/provider_set.h"

#include <gtest/gtest.h>

#include "services/index/simulated_targets.h"

namespace cairn::index {
namespace {

class Providers : public testing::Test {
 protected:
  bool add(ProviderParts parts) { return set.add(sample_provider(parts), sample_now); }
  ProviderSet set{sample_address(1)};
};

// [PT-1]
TEST_F(Providers, of_each_key_the_highest_sequence_is_kept) {
  EXPECT_TRUE(add({.sequence = 5}));
  EXPECT_FALSE(add({.sequence = 4}));
  EXPECT_FALSE(add({.sequence = 5}));
  EXPECT_TRUE(add({.sequence = 6}));
  EXPECT_TRUE(add({.key = 2, .sequence = 1}));
  ASSERT_EQ(set.records().size(), 2u);
  EXPECT_EQ(set.records()[0].record.sequence, 6u);
}

TEST_F(Providers, a_withdrawal_is_over_what_came_before) {
  EXPECT_TRUE(add({.sequence = 5}));
  EXPECT_TRUE(set.has_fresh(sample_now));
  EXPECT_TRUE(add({.sequence = 6, .withdrawn = true}));
  EXPECT_FALSE(set.has_fresh(sample_now));
  EXPECT_FALSE(add({.sequence = 5}));
  EXPECT_FALSE(set.has_fresh(sample_now));
}

TEST_F(Providers, an_expired_record_is_not_fresh) {
  add({.lives = Duration::seconds(10)});
  EXPECT_TRUE(set.has_fresh(WallTime{sample_now.ms + 9'999}));
  EXPECT_FALSE(set.has_fresh(WallTime{sample_now.ms + 10'000}));
}

TEST_F(Providers, a_record_of_another_address_is_not_taken) {
  EXPECT_FALSE(add({.address = 2}));
  EXPECT_TRUE(set.records().empty());
}

// [PT-2]
TEST_F(Providers, a_flood_of_keys_pushes_nobody_out) {
  for (unsigned char key = 1; key <= providers_max; ++key)
    EXPECT_TRUE(add({.key = key, .withdrawn = key == 7}));
  EXPECT_FALSE(add({.key = 100, .withdrawn = true}));
  EXPECT_TRUE(add({.key = 101}));  // in the place of the withdrawn one
  EXPECT_FALSE(add({.key = 102}));
  EXPECT_TRUE(add({.key = 3, .sequence = 2}));
  EXPECT_EQ(set.records().size(), providers_max);
}

// [PT-1]
TEST_F(Providers, two_records_with_one_sequence_end_the_same_in_either_order) {
  const SignedProvider a = sample_provider({.sequence = 3, .lives = Duration::seconds(5)});
  const SignedProvider b = sample_provider({.sequence = 3, .lives = Duration::seconds(6)});
  ProviderSet one{sample_address(1)}, other{sample_address(1)};
  one.add_all(std::array{a, b}, sample_now);
  other.add_all(std::array{b, a}, sample_now);
  EXPECT_EQ(one.records(), other.records());
}

}  // namespace
}  // namespace cairn::index
