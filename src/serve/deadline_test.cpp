#include "serve/deadline.h"

#include <gtest/gtest.h>

#include <string>

#include "http/h1/parser.h"

namespace cairn::serve {
namespace {

constexpr Duration longest = Duration::seconds(5);
constexpr Instant now{1'000'000'000'000};
constexpr WallTime wall{1'767'225'600'000};  // 2026-01-01T00:00:00Z

// Milliseconds the request has.
std::int64_t given(const std::string& fields) {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
  http::RequestParser parser;
  EXPECT_EQ(parser.parse(head).progress, http::Progress::complete) << fields;
  return (request_deadline(parser.head.fields, now, wall, longest) - now).to_millis();
}

TEST(Deadline, without_a_wish_it_is_the_longest) { EXPECT_EQ(given(""), 5000); }

TEST(Deadline, request_timeout_is_in_seconds) {
  EXPECT_EQ(given("Request-Timeout: 2\r\n"), 2000);
  EXPECT_EQ(given("Request-Timeout: 0\r\n"), 0);
  EXPECT_EQ(given("Request-Timeout: 1.5\r\n"), 1500);
  EXPECT_EQ(given("Request-Timeout: 0.0015\r\n"), 1);
  EXPECT_EQ(given("Request-Timeout: 0001\r\n"), 1000);
}

TEST(Deadline, x_deadline_ms_is_in_milliseconds) {
  EXPECT_EQ(given("X-Deadline-Ms: 250\r\n"), 250);
  EXPECT_EQ(given("X-Deadline-Ms: 0\r\n"), 0);
}

TEST(Deadline, deadline_is_a_point_in_time) {
  EXPECT_EQ(given("Deadline: 2026-01-01T00:00:03Z\r\n"), 3000);
  EXPECT_EQ(given("Deadline: 2026-01-01T00:00:00.250Z\r\n"), 250);
  EXPECT_EQ(given("Deadline: 2025-12-31T23:59:59Z\r\n"), 0);
}

TEST(Deadline, a_client_can_only_shorten) {
  EXPECT_EQ(given("Request-Timeout: 60\r\n"), 5000);
  EXPECT_EQ(given("Request-Timeout: 99999999999999999999999999\r\n"), 5000);
  EXPECT_EQ(given("X-Deadline-Ms: 9223372036854775807\r\n"), 5000);
  EXPECT_EQ(given("Deadline: 2036-01-01T00:00:00Z\r\n"), 5000);
}

TEST(Deadline, the_shortest_of_several_holds) {
  EXPECT_EQ(given("Request-Timeout: 3\r\nX-Deadline-Ms: 1000\r\nDeadline: 2026-01-01T00:00:02Z\r\n"), 1000);
  EXPECT_EQ(given("Request-Timeout: 1\r\nX-Deadline-Ms: 3000\r\nDeadline: 2026-01-01T00:00:02Z\r\n"), 1000);
  EXPECT_EQ(given("Request-Timeout: 3\r\nX-Deadline-Ms: 4000\r\nDeadline: 2026-01-01T00:00:02Z\r\n"), 2000);
}

TEST(Deadline, what_does_not_parse_is_ignored) {
  for (const char* text : {"", "-1", "1s", "x", "1e3", ".5", "1.5.5", "1,5", "0x1"})
    EXPECT_EQ(given(std::string("Request-Timeout: ") + text + "\r\n"), 5000) << text;
  for (const char* text : {"", "-1", "1.5", "1ms", "18446744073709551616"})
    EXPECT_EQ(given(std::string("X-Deadline-Ms: ") + text + "\r\n"), 5000) << text;
  for (const char* text : {"", "yesterday", "1767225601", "2026-13-01T00:00:00Z"})
    EXPECT_EQ(given(std::string("Deadline: ") + text + "\r\n"), 5000) << text;
}

}  // namespace
}  // namespace cairn::serve
