#include "observe/span.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::observe {
namespace {

constexpr std::string_view good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string with(std::size_t at, char c) {
  std::string text(good);
  text[at] = c;
  return text;
}

TEST(Span, traceparent_round_trips) {
  const auto context = parse_traceparent(good);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, (TraceId{0x0af7651916cd43dd, 0x8448eb211c80319c}));
  EXPECT_EQ(context->span_id, 0xb7ad6b7169203331u);
  EXPECT_TRUE(context->sampled());
  EXPECT_EQ(format_traceparent(*context), good);
  EXPECT_EQ(format_trace_id(context->trace_id), "0af7651916cd43dd8448eb211c80319c");
}

TEST(Span, every_damaged_position_is_refused) {
  for (std::size_t at = 0; at < good.size(); ++at) {
    EXPECT_FALSE(parse_traceparent(with(at, 'A'))) << at;  // upper case is no digit, and no dash
    EXPECT_FALSE(parse_traceparent(with(at, ' '))) << at;
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(parse_traceparent(good.substr(0, size)));
}

TEST(Span, zero_ids_are_refused) {
  EXPECT_FALSE(parse_traceparent("00-00000000000000000000000000000000-b7ad6b7169203331-01"));
  EXPECT_FALSE(parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"));
  EXPECT_TRUE(parse_traceparent("00-00000000000000000000000000000001-b7ad6b7169203331-00"));
}

TEST(Span, version_00_ends_after_its_flags) {
  EXPECT_FALSE(parse_traceparent(std::string(good) + "-x"));
  EXPECT_FALSE(parse_traceparent(std::string(good) + " "));
}

TEST(Span, a_later_version_may_go_on_but_only_sampled_is_kept) {
  const std::string later = "cc" + std::string(good.substr(2, 51)) + "ff";
  ASSERT_TRUE(parse_traceparent(later));
  EXPECT_EQ(parse_traceparent(later)->flags, 1);
  EXPECT_TRUE(parse_traceparent(later + "-what-ever"));
  EXPECT_FALSE(parse_traceparent(later + "what-ever"));
  EXPECT_FALSE(parse_traceparent("ff" + std::string(good.substr(2))));
}

TEST(Span, a_child_shares_the_trace_and_has_its_own_span) {
  const SpanContext parent = start_trace(1, 2, 3, true);
  const SpanContext child = child_of(parent, 4);
  EXPECT_EQ(child.trace_id, parent.trace_id);
  EXPECT_EQ(child.span_id, 4u);
  EXPECT_TRUE(child.sampled());
}

TEST(Span, zero_randomness_still_gives_valid_ids) {
  EXPECT_TRUE(start_trace(0, 0, 0, false).valid());
  EXPECT_TRUE(child_of(start_trace(0, 0, 0, false), 0).valid());
}

}  // namespace
}  // namespace cairn::observe
