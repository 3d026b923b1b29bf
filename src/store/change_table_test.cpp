#include "store/change_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace cairn::store {
namespace {

using Value = std::optional<std::string>;

Value value_in(const ChangeTable& table, std::string_view key) {
  const auto* found = table.find(key);
  if (found == nullptr) return "nothing";
  EXPECT_EQ(found->key(), key);
  const auto value = found->value();
  return value ? Value(std::in_place, *value) : std::nullopt;
}

TEST(ChangeTable, a_value_that_fits_takes_the_place_of_the_last_one) {
  ChangeTable table(1);
  table.set("key", "0123456789");
  const std::uint64_t held = table.bytes();
  table.set("key", "01234");
  EXPECT_EQ(table.bytes(), held);
  EXPECT_EQ(value_in(table, "key"), "01234");
  table.set("key", std::nullopt);
  EXPECT_EQ(value_in(table, "key"), std::nullopt);
  table.set("key", "");
  EXPECT_EQ(value_in(table, "key"), "") << "empty is not removed";
  table.set("key", "012345678901");
  EXPECT_EQ(value_in(table, "key"), "012345678901");
  EXPECT_EQ(table.changes().size(), 1u);
}

TEST(ChangeTable, a_value_of_any_size_is_kept_whole) {
  ChangeTable table(1);
  for (const std::size_t size : {65'535u, 65'536u, 65'537u, 1'000'000u, 1u})
    table.set(std::to_string(size), std::string(size, 'v'));
  for (const std::size_t size : {65'535u, 65'536u, 65'537u, 1'000'000u, 1u})
    EXPECT_EQ(value_in(table, std::to_string(size)), std::string(size, 'v'));
}

TEST(ChangeTable, keys_are_told_apart_and_ordered_as_text_is) {
  const std::vector<std::string> keys{"",
                                      std::string(1, '\0'),
                                      std::string(9, '\0'),
                                      "a",
                                      std::string("a\0", 2),
                                      "a\x01",
                                      "aaaaaaaa",
                                      "aaaaaaaab",
                                      "aaaaaaab",
                                      "\x7f\x7f",
                                      "\x80",
                                      "\xff\xff"};
  ChangeTable table(1);
  for (const std::string& key : keys) table.set(key, key);
  ASSERT_EQ(table.changes().size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(value_in(table, keys[i]), keys[i]);
    for (std::size_t j = 0; j < keys.size(); ++j) {
      const auto &a = table.changes()[i], &b = table.changes()[j];
      EXPECT_EQ(a < b, keys[i] < keys[j]) << i << " " << j;
      for (const std::string& until : keys)
        EXPECT_EQ(a.is_within(keys[j], until), keys[i] >= keys[j] && keys[i] < until);
    }
  }
}

TEST(ChangeTable, CT1_what_was_frozen_stays_as_it_is_and_where_it_is) {
  ChangeTable table(1);
  for (const char* key : {"a", "b", "c"}) table.set(key, "old");
  const auto frozen = table.freeze();
  table.set("a", "new");  // would fit into its place
  table.set("b", std::nullopt);
  for (int i = 0; i < 10'000; ++i) table.set(std::to_string(i), "more");
  ASSERT_EQ(frozen.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(frozen[i].key(), std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(frozen[i].value(), "old");
  }
  EXPECT_EQ(value_in(table, "a"), "new");
  EXPECT_EQ(value_in(table, "b"), std::nullopt);
  EXPECT_EQ(value_in(table, "c"), "old");
}

TEST(ChangeTable, a_key_takes_one_more_place_for_each_freeze_and_not_for_each_change) {
  ChangeTable table(1);
  for (int freezes = 0; freezes < 5; ++freezes) {
    for (int i = 0; i < 100; ++i) table.set("key", "value");
    EXPECT_EQ(table.changes().size(), static_cast<std::size_t>(freezes + 1));
    (void)table.freeze();
  }
}

TEST(ChangeTable, it_is_what_a_map_would_be) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    ChangeTable table(random());
    std::map<std::string, Value> model;
    if (round % 2 == 0) table.expect(random() % 500);
    std::size_t frozen = 0;
    for (int step = 0; step < 3000; ++step) {
      if (round % 4 == 3 && random() % 100 == 0) frozen = table.freeze().size();
      const std::string key = std::to_string(random() % 1000);
      Value value;
      if (random() % 4 != 0) value.emplace(random() % 40, static_cast<char>('a' + random() % 26));
      table.set(key, value);
      model[key] = value;
    }
    if (frozen == 0) ASSERT_EQ(table.changes().size(), model.size());
    for (int number = 0; number < 1000; ++number) {
      const std::string key = std::to_string(number);
      const auto kept = model.find(key);
      ASSERT_EQ(value_in(table, key), kept == model.end() ? Value("nothing") : kept->second) << key;
    }
  }
}

}  // namespace
}  // namespace cairn::store
