#include "http/range.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::http {
namespace {

// "whole", "none" or "0-9,20-29".
std::string answer(std::string_view value, std::uint64_t size) {
  const RangeSet set = parse_range(value, size);
  if (set.kind == RangeSet::Kind::whole) return "whole";
  if (set.kind == RangeSet::Kind::unsatisfiable) return "none";
  std::string text;
  for (const ByteRange& range : set.ranges())
    text += (text.empty() ? "" : ",") + std::to_string(range.first) + "-" + std::to_string(range.last);
  return text;
}

}  // namespace

TEST(Range, satisfiable_ranges_are_cut_to_the_object_and_keep_their_order) {
  const std::pair<const char*, const char*> rows[] = {
      {"bytes=0-9", "0-9"},
      {"bytes=0-0", "0-0"},
      {"bytes=99-", "99-99"},
      {"bytes=0-", "0-99"},
      {"bytes=90-200", "90-99"},
      {"bytes=-1", "99-99"},
      {"bytes=-1000", "0-99"},
      {"Bytes=0-9", "0-9"},
      {"bytes= 0-9 ,\t20-29", "0-9,20-29"},
      {"bytes=,,0-9,,20-29,", "0-9,20-29"},
      {"bytes=20-29,0-9", "20-29,0-9"},
      {"bytes=0-9,100-,-0", "0-9"},
      {"bytes=0-99999999999999999999999999", "0-99"},
      {"bytes=00000000000000000000000005-6", "5-6"},
      {"bytes=0-1,2-3,4-5,6-7,8-9,10-11,12-13,14-15", "0-1,2-3,4-5,6-7,8-9,10-11,12-13,14-15"},
      {"bytes=0-9,5-14", "0-9,5-14"},
      {"bytes=0-9,5-14,12-20", "0-9,5-14,12-20"},
  };
  for (const auto& [value, expected] : rows) EXPECT_EQ(answer(value, 100), expected) << value;
}

TEST(Range, malformed_ones_count_as_absent) {
  for (const char* value : {"",
                            "bytes",
                            "bytes=",
                            "bytes=,",
                            "bytes=-",
                            "bytes=a-b",
                            "bytes=1",
                            "bytes=5-4",
                            "bytes=1-2-3",
                            "bytes=--1",
                            "bytes=+1-2",
                            "bytes=1 -2",
                            "bytes=0x1-2",
                            "bytes =0-1",
                            "items=0-1",
                            "bytes=0-1;2-3",
                            "bytes=0-1,x",
                            "bytes=100-,5-4",
                            "bytes:0-1",
                            "bytes=1.0-2",
                            "bytes=99999999999999999999999-99999999999999999999998",
                            "bytes=18446744073709551616-18446744073709551615"})
    EXPECT_EQ(answer(value, 100), "whole") << value;
}

TEST(Range, nothing_touched_is_unsatisfiable) {
  for (const char* value :
       {"bytes=100-", "bytes=100-200", "bytes=-0", "bytes=100-,200-", "bytes=99999999999999999999999-",
        "bytes=99999999999999999999998-99999999999999999999999"})
    EXPECT_EQ(answer(value, 100), "none") << value;
  EXPECT_EQ(answer("bytes=0-", 0), "none");
  EXPECT_EQ(answer("bytes=-0", 0), "none");
}

TEST(Range, a_suffix_is_known_as_one_however_it_is_spelled) {
  for (const char* text : {"bytes=-5", "bytes= -5", "bytes=\t-5 ", "bytes=,-5", "bytes=0-1, -5"})
    EXPECT_TRUE(parse_range(text, 100).from_end) << text;
  for (const char* text : {"bytes=0-5", "bytes= 5-", "bytes=-", "nonsense"})
    EXPECT_FALSE(parse_range(text, 100).from_end) << text;
}
TEST(Range, a_suffix_of_an_empty_object_is_the_whole_object) { EXPECT_EQ(answer("bytes=-5", 0), "whole"); }

TEST(Range, more_than_8_ranges_or_two_overlaps_are_the_whole_object) {
  EXPECT_EQ(answer("bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16", 100), "whole");
  EXPECT_EQ(answer("bytes=0-0,200-,200-,200-,200-,200-,200-,200-,200-", 100), "whole");
  EXPECT_EQ(answer("bytes=0-9,5-14,8-20", 100), "whole");
  EXPECT_EQ(answer("bytes=0-,0-,0-", 100), "whole");
  EXPECT_EQ(answer("bytes=0-1,1-2,2-3,3-4", 100), "whole");
}

TEST(Range, the_end_of_the_largest_object_does_not_wrap) {
  const std::uint64_t max = ~std::uint64_t{0};
  EXPECT_EQ(answer("bytes=18446744073709551614-18446744073709551615", max),
            "18446744073709551614-18446744073709551614");
  EXPECT_EQ(answer("bytes=-18446744073709551615", max), "0-18446744073709551614");
  EXPECT_EQ(answer("bytes=18446744073709551615-", max), "none");
}

TEST(Range, content_range_is_written) {
  char out[content_range_size_max];
  EXPECT_EQ(format_content_range({0, 9}, 100, out), "bytes 0-9/100");
  EXPECT_EQ(format_unsatisfied_range(100, out), "bytes */100");
  const std::uint64_t max = ~std::uint64_t{0};
  EXPECT_EQ(format_content_range({max, max}, max, out),
            "bytes 18446744073709551615-18446744073709551615/18446744073709551615");
}

}  // namespace cairn::http
