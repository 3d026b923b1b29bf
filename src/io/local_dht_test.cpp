#include "io/local_dht.h"

#include <gtest/gtest.h>

#include "io/dht_setting.h"

namespace cairn::io {
namespace {

constexpr Instant start{1'000};
constexpr Duration almost = dht_value_life - Duration::millis(1);

TEST(LocalDht, LH2_a_value_lives_as_long_as_it_was_promised_from_its_last_put) {
  LocalValues values(1 << 20);
  ASSERT_TRUE(values.put(sample_key(1), {1, "renewed"}, start));
  ASSERT_TRUE(values.put(sample_key(1), {2, "not renewed"}, start));
  EXPECT_EQ(values.find(sample_key(1), start + almost).size(), 2u);
  ASSERT_TRUE(values.put(sample_key(1), {1, "renewed"}, start + almost));
  EXPECT_EQ(values.find(sample_key(1), start + dht_value_life), (std::vector<DhtValue>{{1, "renewed"}}));
  EXPECT_TRUE(values.find(sample_key(1), start + almost + dht_value_life).empty());
}

TEST(LocalDht, other_bytes_do_not_renew_a_value) {
  LocalValues values(1 << 20);
  ASSERT_TRUE(values.put(sample_key(1), {1, "first"}, start));
  ASSERT_TRUE(values.put(sample_key(1), {1, "other"}, start + almost));
  EXPECT_TRUE(values.find(sample_key(1), start + dht_value_life).empty());
  ASSERT_TRUE(values.put(sample_key(1), {1, "other"}, start + dht_value_life));
  EXPECT_EQ(values.find(sample_key(1), start + dht_value_life), (std::vector<DhtValue>{{1, "other"}}));
}

TEST(LocalDht, LH1_a_full_one_refuses_until_values_have_expired) {
  LocalValues values(10'000);
  unsigned kept = 0;
  while (values.put(sample_key(kept), {1, std::string(dht_value_max, 'x')}, start)) ++kept;
  EXPECT_GT(kept, 5u);
  EXPECT_LE(values.bytes(), 10'000u);
  EXPECT_EQ(values.values(), kept);
  EXPECT_EQ(code_of(values.put(sample_key(kept), {1, std::string(dht_value_max, 'x')}, start + almost)),
            ErrorCode::storage_full);
  EXPECT_TRUE(values.put(sample_key(0), {1, std::string(dht_value_max, 'x')}, start))
      << "it is there already";
  ASSERT_TRUE(values.put(sample_key(kept), {1, std::string(dht_value_max, 'x')}, start + dht_value_life));
  EXPECT_EQ(values.values(), 1u);
}

TEST(LocalDht, LH1_a_key_has_no_more_values_than_a_get_gives) {
  LocalValues values(1 << 20);
  for (std::uint64_t id = 1; id <= dht_values_most; ++id)
    ASSERT_TRUE(values.put(sample_key(1), {id, "x"}, start));
  EXPECT_EQ(code_of(values.put(sample_key(1), {dht_values_most + 1, "x"}, start)), ErrorCode::storage_full);
  EXPECT_TRUE(values.put(sample_key(2), {1, "x"}, start));
  EXPECT_TRUE(values.put(sample_key(1), {dht_values_most + 1, "x"}, start + dht_value_life));
}

TEST(LocalDht, what_has_expired_goes_faster_than_new_values_come) {
  LocalValues values(1 << 20);
  for (unsigned i = 0; i < 200; ++i) ASSERT_TRUE(values.put(sample_key(i), {1, "old"}, start));
  for (unsigned i = 0; i < 20; ++i)
    ASSERT_TRUE(values.put(sample_key(1000 + i), {1, "new"}, start + dht_value_life));
  EXPECT_EQ(values.values(), 20u);
}

}  // namespace
}  // namespace cairn::io
