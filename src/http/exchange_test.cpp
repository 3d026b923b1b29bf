#include "http/exchange.h"

#include <gtest/gtest.h>

namespace cairn::http {
namespace {

TEST(Response, field_lines_are_kept_in_order_and_ready_to_send) {
  Response response;
  response.add_field("ETag", "\"a\"");
  response.add_number("Retry-After", 0);
  response.add_number("X-Large", 18'446'744'073'709'551'615u);
  EXPECT_EQ(response.lines(), "ETag: \"a\"\r\nRetry-After: 0\r\nX-Large: 18446744073709551615\r\n");
}

TEST(Response, the_size_is_that_of_its_kind_of_body) {
  Response response;
  EXPECT_EQ(response.size(), 0u);
  response.text = "four";
  EXPECT_EQ(response.size(), 0u);  // not answered with it yet
  response.answer_text("text/plain");
  EXPECT_EQ(response.size(), 4u);
  response.answer_view("text/plain", "seventh");
  EXPECT_EQ(response.size(), 7u);
  response.answer_file("text/plain", nullptr, 100, 1u << 20);
  EXPECT_EQ(response.size(), 1u << 20);
  EXPECT_EQ(response.offset, 100u);
  response.answer_stream("text/plain", nullptr);
  EXPECT_EQ(response.size(), 0u);
}

TEST(Response, clear_leaves_nothing_of_the_answer_before) {
  Response response;
  response.status = 503;
  response.close = true;
  response.add_field("Retry-After", "1");
  response.text = "text";
  response.answer_text("application/json");
  response.clear();
  EXPECT_EQ(response.status, 200);
  EXPECT_FALSE(response.close);
  EXPECT_EQ(response.lines(), "");
  EXPECT_EQ(response.text, "");
  EXPECT_EQ(response.content_type, "");
  EXPECT_EQ(response.kind, Response::Body::none);
  EXPECT_EQ(response.size(), 0u);
}

//
TEST(Response, a_field_that_does_not_fit_spoils_the_answer) {
  Response response;
  const std::string value(1018, 'v');
  response.add_field("X", value + "!");  // 1024 with its name and CRLF
  EXPECT_EQ(response.lines().size(), 1024u);
  EXPECT_TRUE(response.is_sound());
  response.add_field("Y", "");
  EXPECT_FALSE(response.is_sound());
  response.clear();
  EXPECT_TRUE(response.is_sound());
}

//
TEST(Response, a_value_that_would_end_its_line_spoils_the_answer) {
  using namespace std::literals;
  for (const std::string_view value : {"a\r\nX: y"sv, "a\nb"sv, "a\rb"sv, "a\0b"sv, "\x7f"sv}) {
    Response response;
    response.add_field("X", value);
    EXPECT_FALSE(response.is_sound());
    EXPECT_EQ(response.lines(), "");
    response.clear();
    response.answer_view(value, "body");
    EXPECT_FALSE(response.is_sound());
  }
  Response response;
  response.add_field("X Y", "a");
  EXPECT_FALSE(response.is_sound());
  response.clear();
  const std::string long_type(513, 't');
  response.answer_view(long_type, "body");
  EXPECT_FALSE(response.is_sound());
  response.clear();
  response.add_field("X", "a\tb \xc3\xa9");
  response.add_lines("A: b\r\nC: d\r\n");
  EXPECT_TRUE(response.is_sound());
  EXPECT_EQ(response.lines(), "X: a\tb \xc3\xa9\r\nA: b\r\nC: d\r\n");
}

TEST(Exchange, clear_leaves_nothing_of_the_request_before) {
  Exchange exchange{HeadLimits{}};
  const std::string head =
      "POST /path HTTP/1.1\r\nHost: h\r\nX-Corr-ID: somebody\r\nContent-Length: 5\r\n\r\n";
  ASSERT_EQ(exchange.parser.parse(head).progress, Progress::complete);
  exchange.reserved = true;
  exchange.counted = 3;
  exchange.corr_size = 8;
  exchange.route.outcome = RouteMatch::Outcome::matched;
  exchange.response.status = 404;
  exchange.clear();
  EXPECT_EQ(exchange.request().method, Method::get);
  EXPECT_EQ(exchange.request().fields.size(), 0u);
  EXPECT_EQ(exchange.request().content_length, 0u);
  EXPECT_EQ(exchange.request().path(), "");
  EXPECT_FALSE(exchange.reserved);
  EXPECT_EQ(exchange.counted, 0u);
  EXPECT_EQ(exchange.corr(), "");
  EXPECT_EQ(exchange.route.outcome, RouteMatch::Outcome::not_found);
  EXPECT_EQ(exchange.response.status, 200);
  EXPECT_TRUE(exchange.body.done());
}

}  // namespace
}  // namespace cairn::http
