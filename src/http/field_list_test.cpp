#include "http/field_list.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::http {
namespace {

using Listed = std::vector<std::pair<std::string, std::string>>;

Listed listed(const FieldList& fields) {
  Listed all;
  fields.each([&](std::string_view name, std::string_view value) { all.emplace_back(name, value); });
  return all;
}

TEST(FieldList, fields_come_out_as_they_were_added) {
  FieldList fields;
  EXPECT_TRUE(fields.add("ETag", "\"a:b\""));
  EXPECT_TRUE(fields.add("X-Empty", ""));
  EXPECT_TRUE(fields.add("Vary: Accept\r\nAge: 1\r\n"));
  EXPECT_TRUE(fields.add_number("Retry-After", 30));
  EXPECT_EQ(
      listed(fields),
      (Listed{
          {"ETag", "\"a:b\""}, {"X-Empty", ""}, {"Vary", "Accept"}, {"Age", "1"}, {"Retry-After", "30"}}));
  EXPECT_EQ(fields.find("etag"), "\"a:b\"");
  EXPECT_EQ(fields.find("x-empty"), "");
  EXPECT_EQ(fields.find("X"), std::nullopt);
}

TEST(FieldList, a_head_larger_than_usual_is_kept_whole) {
  FieldList fields;
  Listed all;
  for (int i = 0; i < 100; ++i) {
    all.emplace_back("X-Field-" + std::to_string(i), std::string(200, static_cast<char>('a' + i % 26)));
    EXPECT_TRUE(fields.add(all.back().first, all.back().second));
  }
  EXPECT_EQ(listed(fields), all);
  fields.clear();
  EXPECT_EQ(fields.lines(), "");
  EXPECT_TRUE(fields.add("A", "b"));
  EXPECT_EQ(fields.lines(), "A: b\r\n");
}

// FL-1
TEST(FieldList, one_that_failed_has_failed_for_good) {
  FieldList fields;
  EXPECT_TRUE(fields.add("A", "b"));
  EXPECT_FALSE(fields.add("X", std::string(FieldList::size_max, 'x')));
  EXPECT_TRUE(fields.failed());
  EXPECT_FALSE(fields.add("C", "d"));
  EXPECT_EQ(fields.lines(), "A: b\r\n");
  fields.clear();
  EXPECT_FALSE(fields.add("C", "d\r\nE: f"));
  fields.clear();
  EXPECT_FALSE(fields.add("C D", "e"));
  fields.clear();
  EXPECT_FALSE(fields.add("", "e"));
  fields.clear();
  EXPECT_FALSE(fields.failed());
}

// FL-2
TEST(FieldList, what_was_kept_is_kept_wherever_it_was) {
  FieldList fields;
  EXPECT_TRUE(fields.add("Kept", "1"));
  fields.keep();
  EXPECT_TRUE(fields.add("Long", std::string(5000, 'x')));
  fields.clear();
  EXPECT_EQ(fields.lines(), "Kept: 1\r\n");
  EXPECT_TRUE(fields.add("Long", std::string(5000, 'x')));
  fields.keep();
  EXPECT_TRUE(fields.add("More", "2"));
  fields.clear();
  EXPECT_EQ(listed(fields), (Listed{{"Kept", "1"}, {"Long", std::string(5000, 'x')}}));
  fields.reset();
  EXPECT_EQ(fields.lines(), "");
}

}  // namespace
}  // namespace cairn::http
