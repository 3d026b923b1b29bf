#include "http/sse_parser.h"

#include <gtest/gtest.h>

#include <vector>

namespace cairn::http {
namespace {

using Events = std::vector<SseEvent>;

Result<Events> parse(std::string_view stream, std::size_t step = 1 << 20, std::size_t max = 1000) {
  SseParser parser(max);
  Events events;
  while (!stream.empty()) {
    std::string_view piece = stream.substr(0, step);
    stream.remove_prefix(piece.size());
    while (!piece.empty()) {
      TRY(const bool complete, parser.next(piece));
      if (complete) events.push_back(parser.event());
    }
  }
  return events;
}

TEST(SseParser, fields_make_an_event_at_the_empty_line) {
  EXPECT_EQ(parse("event: a\nid: 1\ndata: x\ndata: y\n\n"), (Events{{"a", "1", "x\ny"}}));
  EXPECT_EQ(parse("data: x\n"), Events{}) << "not yet complete";
}

TEST(SseParser, only_one_blank_behind_the_colon_is_dropped) {
  EXPECT_EQ(parse("data:x\n\ndata:  y\n\ndata\n\n"), (Events{{"", "", "x"}, {"", "", " y"}, {"", "", ""}}));
}

TEST(SseParser, an_id_stays_until_the_next_one) {
  EXPECT_EQ(parse("id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n"),
            (Events{{"", "1", "a"}, {"", "1", "b"}, {"", "", "c"}}));
}

TEST(SseParser, without_data_there_is_no_event) {
  EXPECT_EQ(parse("event: a\nid: 4\n\ndata: x\n\n\n\n"), (Events{{"", "4", "x"}}));
}

TEST(SseParser, comments_and_unknown_fields_are_skipped) {
  EXPECT_EQ(parse(": beat\n\n:\n\nfuture: 1\nDATA: no\ndata: x\n: in between\n\n"), (Events{{"", "", "x"}}));
}

TEST(SseParser, lines_end_with_lf_cr_or_both_wherever_the_bytes_are_cut) {
  const std::string_view stream =
      "\xef\xbb\xbf"
      "data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\rdata: e\n\n";
  const Events expected{{"", "", "a\nb\nc"}, {"", "", "d"}, {"", "", "e"}};
  for (std::size_t step = 1; step <= stream.size(); ++step) EXPECT_EQ(parse(stream, step), expected) << step;
}

TEST(SseParser, an_event_over_its_size_is_refused_and_that_is_final) {
  EXPECT_TRUE(parse("data: " + std::string(94, 'x') + "\n\n", 7, 100).has_value());
  EXPECT_EQ(parse("data: " + std::string(95, 'x') + "\n\n", 7, 100).error().code, ErrorCode::body_cap);
  EXPECT_EQ(parse(":" + std::string(100, 'x'), 1, 100).error().code, ErrorCode::body_cap);
  std::string many;
  for (int i = 0; i < 100; ++i) many += "data: x\n";
  EXPECT_EQ(parse(many, 1000, 100).error().code, ErrorCode::body_cap);
  SseParser parser(4);
  std::string_view bytes = "data: long\n\n", more = "\n\ndata\n\n";
  EXPECT_FALSE(parser.next(bytes).has_value());
  EXPECT_FALSE(parser.next(more).has_value());
}

TEST(SseParser, comments_without_end_cost_nothing) {
  std::string beats;
  for (int i = 0; i < 1000; ++i) beats += ": beat\n\n";
  EXPECT_EQ(parse(beats + "data: x\n\n", 11, 20), (Events{{"", "", "x"}}));
}

TEST(SseParser, what_is_not_utf8_or_no_id_is_malformed) {
  EXPECT_EQ(parse("data: \xff\n").error().code, ErrorCode::malformed);
  EXPECT_EQ(parse(std::string("id: 1\0002\n", 9)).error().code, ErrorCode::malformed);
}

TEST(SseParser, retry_is_a_plain_number_or_ignored) {
  SseParser parser;
  std::string_view bytes = "retry: 12x\nretry: \n";
  EXPECT_FALSE(*parser.next(bytes));
  EXPECT_EQ(parser.retry_ms(), std::nullopt);
  bytes = "retry: 1500\n";
  EXPECT_FALSE(*parser.next(bytes));
  EXPECT_EQ(parser.retry_ms(), 1500u);
}

}  // namespace
}  // namespace cairn::http
