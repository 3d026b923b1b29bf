#include "http/exchange.h"

#include <gtest/gtest.h>

namespace cairn::http {
namespace {

TEST(Response, field_lines_are_kept_in_order_and_ready_to_send) {
  Response response;
  response.add_field("ETag", "\"a\"");
  response.add_number("Retry-After", 0);
  response.add_number("X-Large", 18'446'744'073'709'551'615u);
  EXPECT_EQ(response.fields.lines(), "ETag: \"a\"\r\nRetry-After: 0\r\nX-Large: 18446744073709551615\r\n");
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
  EXPECT_EQ(response.fields.lines(), "");
  EXPECT_EQ(response.text, "");
  EXPECT_EQ(response.content_type, "");
  EXPECT_EQ(response.kind, Response::Body::none);
  EXPECT_EQ(response.size(), 0u);
}

//
TEST(Response, a_field_that_does_not_fit_spoils_the_answer) {
  Response response;
  response.add_field("X", std::string(FieldList::size_max - 5, 'v'));  // with its name and CRLF all there is
  EXPECT_EQ(response.fields.lines().size(), FieldList::size_max);
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
    EXPECT_EQ(response.fields.lines(), "");
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
  EXPECT_EQ(response.fields.lines(), "X: a\tb \xc3\xa9\r\nA: b\r\nC: d\r\n");
}

// FL-2
TEST(Exchange, what_was_kept_outlives_another_answer_and_not_another_request) {
  RequestHead head;
  NoBody body;
  Exchange exchange(head, body);
  exchange.response.add_field("X-Corr-ID", "somebody");
  exchange.response.fields.keep();
  exchange.response.add_field("ETag", "a\r\nb");
  EXPECT_FALSE(exchange.response.is_sound());
  exchange.response.clear();
  EXPECT_TRUE(exchange.response.is_sound());
  EXPECT_EQ(exchange.response.fields.lines(), "X-Corr-ID: somebody\r\n");
  exchange.clear();
  EXPECT_EQ(exchange.response.fields.lines(), "");
}

TEST(Exchange, clear_leaves_nothing_of_the_request_before) {
  struct Known final : Attachment {
    void clear() noexcept override { ++cleared; }
    int cleared = 0;
  };
  RequestHead head;
  NoBody body;
  Exchange exchange(head, body);
  auto known = std::make_unique<Known>();
  const Known& attached = *known;
  exchange.attached = std::move(known);
  exchange.reserved = exchange.attends = exchange.without_place = exchange.health_only = true;
  exchange.taking_body = exchange.stays_open = exchange.is_health = true;
  exchange.response.status = 404;
  exchange.clear();
  EXPECT_FALSE(exchange.reserved || exchange.attends || exchange.without_place || exchange.health_only);
  EXPECT_FALSE(exchange.taking_body || exchange.stays_open || exchange.is_health);
  EXPECT_EQ(exchange.response.status, 200);
  EXPECT_EQ(attached.cleared, 1);
}

}  // namespace
}  // namespace cairn::http
