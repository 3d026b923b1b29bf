#include "format/name.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::format {

TEST(Name, segments_of_small_letters_digits_and_a_few_signs) {
  for (const std::string_view good : {"a", "docs/readme", "0", "a.b_c-d/9", "...", "-", "a/.b/..c", ".a"})
    EXPECT_TRUE(is_name(good)) << good;
  for (const std::string_view bad : {"", "/", "/a", "a/", "a//b", ".", "..", "a/.", "../a", "a/../b", "A",
                                     "a b", "a\xc3\xa4", "a:b", "b3:a", "a%2e", "a\n", "a\\b", "~"})
    EXPECT_FALSE(is_name(bad)) << bad;
  EXPECT_FALSE(is_name(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_name(std::string(255, 'a')));
  EXPECT_FALSE(is_name(std::string(256, 'a')));
  EXPECT_FALSE(is_name(std::string(300, 'a')));
}

TEST(Name, a_prefix_covers_itself_and_what_is_below_it) {
  EXPECT_TRUE(is_covered("docs", "docs"));
  EXPECT_TRUE(is_covered("docs/a/b", "docs"));
  EXPECT_TRUE(is_covered("docs/a/b", "docs/a"));
  EXPECT_FALSE(is_covered("docs2", "docs"));
  EXPECT_FALSE(is_covered("doc", "docs"));
  EXPECT_FALSE(is_covered("a/docs", "docs"));
}

}  // namespace cairn::format
