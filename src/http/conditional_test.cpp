#include "http/conditional.h"

#include <gtest/gtest.h>

#include <string>

#include "http/h1/parser.h"

namespace cairn::http {
namespace {

constexpr const char* before = "Sun, 06 Nov 1994 08:49:36 GMT";
constexpr const char* exactly = "Sun, 06 Nov 1994 08:49:37 GMT";
constexpr const char* after = "Sun, 06 Nov 1994 08:49:38 GMT";
const Validators object{"\"b3:00\"", WallTime{784111777500}, true};
const Validators absent{"", std::nullopt, false};

// "proceed", "proceed range", "304" or "412".
std::string verdict(const std::string& fields, Method method = Method::get,
                    const Validators& current = object) {
  const std::string text = "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
  RequestParser parser;
  EXPECT_EQ(parser.parse(text).progress, Progress::complete) << fields;
  const Verdict verdict = evaluate(parser.head.fields, method, current);
  if (verdict.outcome == Precondition::not_modified) return "304";
  if (verdict.outcome == Precondition::failed) return "412";
  return verdict.range_applies ? "proceed range" : "proceed";
}

std::string field(const char* name, const std::string& value) {
  return std::string(name) + ": " + value + "\r\n";
}

}  // namespace

TEST(Conditional, if_match_compares_strongly) {
  EXPECT_EQ(verdict(field("If-Match", "\"b3:00\"")), "proceed");
  EXPECT_EQ(verdict(field("If-Match", "\"x\", \"b3:00\"")), "proceed");
  EXPECT_EQ(verdict(field("If-Match", "\"x\"") + field("If-Match", "\"b3:00\"")), "proceed");
  EXPECT_EQ(verdict(field("If-Match", "*")), "proceed");
  EXPECT_EQ(verdict(field("If-Match", "\"x\"")), "412");
  EXPECT_EQ(verdict(field("If-Match", "W/\"b3:00\"")), "412");
  EXPECT_EQ(verdict(field("If-Match", "*"), Method::put, absent), "412");
  EXPECT_EQ(verdict(field("If-Match", "\"b3:00\""), Method::put, absent), "412");
}

TEST(Conditional, if_none_match_compares_weakly) {
  for (const char* tags : {"\"b3:00\"", "W/\"b3:00\"", "\"x\",\"b3:00\"", "*", "\"a,b\", W/\"b3:00\""}) {
    EXPECT_EQ(verdict(field("If-None-Match", tags)), "304") << tags;
    EXPECT_EQ(verdict(field("If-None-Match", tags), Method::head), "304") << tags;
    EXPECT_EQ(verdict(field("If-None-Match", tags), Method::put), "412") << tags;
  }
  EXPECT_EQ(verdict(field("If-None-Match", "\"x\"")), "proceed");
  EXPECT_EQ(verdict(field("If-None-Match", "\"x\""), Method::put), "proceed");
  EXPECT_EQ(verdict(field("If-None-Match", "*"), Method::put, absent), "proceed");
}

TEST(Conditional, unreadable_tags_never_let_a_write_happen) {
  for (const char* tags : {"b3:00", "\"b3:00", "w/\"x\"", "", ",", "\"a\" \"b\"", "*, \"x\"", "\"a b\""}) {
    EXPECT_EQ(verdict(field("If-Match", tags)), "412") << tags;
    EXPECT_EQ(verdict(field("If-Match", tags), Method::put), "412") << tags;
    EXPECT_EQ(verdict(field("If-None-Match", tags), Method::put), "412") << tags;
    EXPECT_EQ(verdict(field("If-None-Match", tags)), "proceed") << tags;
  }
}

TEST(Conditional, dates_compare_by_whole_seconds) {
  EXPECT_EQ(verdict(field("If-Modified-Since", before)), "proceed");
  EXPECT_EQ(verdict(field("If-Modified-Since", exactly)), "304");
  EXPECT_EQ(verdict(field("If-Modified-Since", after), Method::head), "304");
  EXPECT_EQ(verdict(field("If-Modified-Since", after), Method::put), "proceed");
  EXPECT_EQ(verdict(field("If-Unmodified-Since", before)), "412");
  EXPECT_EQ(verdict(field("If-Unmodified-Since", exactly)), "proceed");
  EXPECT_EQ(verdict(field("If-Unmodified-Since", before), Method::put), "412");
}

TEST(Conditional, dates_that_mean_nothing_count_as_absent) {
  EXPECT_EQ(verdict(field("If-Modified-Since", "soon")), "proceed");
  EXPECT_EQ(verdict(field("If-Unmodified-Since", "soon")), "proceed");
  EXPECT_EQ(verdict(field("If-Modified-Since", after) + field("If-Modified-Since", after)), "proceed");
  EXPECT_EQ(verdict(field("If-Modified-Since", after), Method::get, absent), "proceed");
  EXPECT_EQ(verdict(field("If-Unmodified-Since", before), Method::put, absent), "proceed");
}

TEST(Conditional, tags_silence_dates_and_the_first_failure_wins) {
  EXPECT_EQ(verdict(field("If-Match", "\"b3:00\"") + field("If-Unmodified-Since", before)), "proceed");
  EXPECT_EQ(verdict(field("If-None-Match", "\"x\"") + field("If-Modified-Since", after)), "proceed");
  EXPECT_EQ(verdict(field("If-None-Match", "\"b3:00\"") + field("If-Match", "\"x\"")), "412");
  EXPECT_EQ(verdict(field("If-None-Match", "\"b3:00\"") + field("If-Match", "\"b3:00\"")), "304");
  EXPECT_EQ(verdict(field("If-Modified-Since", after) + field("If-Unmodified-Since", before)), "412");
}

TEST(Conditional, a_range_applies_only_when_if_range_holds) {
  const std::string range = field("Range", "bytes=0-1");
  EXPECT_EQ(verdict(range), "proceed range");
  EXPECT_EQ(verdict(range, Method::head), "proceed");
  EXPECT_EQ(verdict(range, Method::put), "proceed");
  EXPECT_EQ(verdict(range, Method::get, absent), "proceed");
  EXPECT_EQ(verdict(range + range), "proceed");
  EXPECT_EQ(verdict(range + field("If-Range", "\"b3:00\"")), "proceed range");
  EXPECT_EQ(verdict(range + field("If-Range", exactly)), "proceed range");
  EXPECT_EQ(verdict(field("If-Range", "\"b3:00\"")), "proceed");
  for (const char* value : {"\"x\"", "W/\"b3:00\"", "\"b3:00\", \"x\"", "*", "", "soon", before, after})
    EXPECT_EQ(verdict(range + field("If-Range", value)), "proceed") << value;
  EXPECT_EQ(verdict(range + field("If-Range", "\"b3:00\"") + field("If-Range", "\"b3:00\"")), "proceed");
  EXPECT_EQ(verdict(range + field("If-None-Match", "\"b3:00\"")), "304");
}

}  // namespace cairn::http
