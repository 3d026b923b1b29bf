#include "http/h1/response_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::http {
namespace {

using namespace std::literals;

struct Outcome {
  Progress progress = Progress::need_more;
  std::size_t size = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome feed(ResponseParser& parser, std::string_view text, std::size_t step) {
  Parsed parsed;
  for (std::size_t i = step;; i += step) {
    parsed = parser.parse(std::string(text.substr(0, i)));
    if (parsed.progress != Progress::need_more || i >= text.size()) break;
  }
  if (parsed.progress == Progress::failed) {
    EXPECT_EQ(parsed.error.code, ErrorCode::upstream);
    EXPECT_EQ(parsed.error.side, Side::upstream);
  }
  if (parsed.progress == Progress::complete) parser.head.rebase(text.data());
  return {parsed.progress, parsed.size};
}

Outcome parse(ResponseParser& parser, std::string_view text, Method method = Method::get) {
  parser.reset(method);
  const Outcome slow = feed(parser, text, 1);
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    parser.reset(method);
    Outcome early = feed(parser, text.substr(0, cut), cut);
    if (early.progress == Progress::need_more) early = feed(parser, text, text.size());
    EXPECT_EQ(early, slow) << cut << ' ' << text;
  }
  parser.reset(method);
  EXPECT_EQ(feed(parser, text, text.size()), slow);
  return slow;
}

}  // namespace

TEST(ResponseParser, a_head_is_understood) {
  const std::string text =
      "HTTP/1.1 206 Partial \xc3\xa9\tContent\r\nContent-Length: 10\r\nETag: \"x\"\r\n\r\n";
  ResponseParser parser;
  EXPECT_EQ(parse(parser, text + "body"), (Outcome{Progress::complete, text.size()}));
  EXPECT_EQ(parse(parser, text), (Outcome{Progress::complete, text.size()}));
  EXPECT_EQ(parser.head.status, 206);
  EXPECT_EQ(parser.head.reason(), "Partial \xc3\xa9\tContent");
  EXPECT_EQ(parser.head.body, BodyKind::length);
  EXPECT_EQ(parser.head.content_length, 10u);
  EXPECT_EQ(parser.head.fields.get(FieldName::etag), "\"x\"");
}

TEST(ResponseParser, framing_follows_status_method_and_fields) {
  struct {
    const char* text;
    Method method;
    BodyKind body;
    bool keep_alive;
  } const rows[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Method::get, BodyKind::length, true},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Method::head, BodyKind::none, true},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Method::get, BodyKind::chunked, true},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Method::head, BodyKind::none, true},
      {"HTTP/1.1 200 OK\r\n\r\n", Method::get, BodyKind::until_close, false},
      {"HTTP/1.1 200 OK\r\n\r\n", Method::head, BodyKind::none, true},
      {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Method::get, BodyKind::length, true},
      {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", Method::get, BodyKind::length, true},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", Method::get, BodyKind::length,
       false},
      {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", Method::get, BodyKind::length, false},
      {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", Method::get,
       BodyKind::length, true},
      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Method::get, BodyKind::none, true},
      {"HTTP/1.1 204 No Content\r\n\r\n", Method::del, BodyKind::none, true},
      {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", Method::del, BodyKind::none, true},
      {"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", Method::del, BodyKind::none, false},
      {"HTTP/1.1 100 Continue\r\n\r\n", Method::put, BodyKind::none, true},
  };
  for (const auto& row : rows) {
    ResponseParser parser;
    EXPECT_EQ(parse(parser, row.text, row.method).progress, Progress::complete) << row.text;
    EXPECT_EQ(parser.head.body, row.body) << row.text;
    EXPECT_EQ(parser.head.keep_alive, row.keep_alive) << row.text;
  }
}

TEST(ResponseParser, an_interim_answer_is_told_apart) {
  ResponseParser parser;
  EXPECT_EQ(parse(parser, "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n").progress, Progress::complete);
  EXPECT_TRUE(parser.head.interim());
  EXPECT_EQ(parse(parser, "HTTP/1.1 101 Switching Protocols\r\n\r\n").progress, Progress::complete);
  EXPECT_FALSE(parser.head.interim());
}

TEST(ResponseParser, a_head_answer_tells_the_announced_length) {
  ResponseParser parser;
  parse(parser, "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n", Method::head);
  EXPECT_TRUE(parser.head.announced);
  EXPECT_EQ(parser.head.content_length, 77u);
}

TEST(ResponseParser, everything_else_is_refused) {
  const std::string rows[] = {
      "\r\nHTTP/1.1 200 OK\r\n\r\n",
      "HTTP/2.0 200 OK\r\n\r\n",
      "HTTP/1.2 200 OK\r\n\r\n",
      "http/1.1 200 OK\r\n\r\n",
      "HTTP/1.1  200 OK\r\n\r\n",
      "HTTP/1.1 20 OK\r\n\r\n",
      "HTTP/1.1 2000 OK\r\n\r\n",
      "HTTP/1.1 099 X\r\n\r\n",
      "HTTP/1.1 600 X\r\n\r\n",
      "HTTP/1.1 200\tOK\r\n\r\n",
      "HTTP/1.1 200OK\r\n\r\n",
      "HTTP/1.1 200 OK\n\r\n",
      "HTTP/1.1 200 O\rK\r\n\r\n",
      "HTTP/1.1 200 O\0K\r\n\r\n"s,
      "ICY 200 OK\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
      "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
      "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
      "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
      "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n",
      "HTTP/1.1 200 OK\r\nX: y\nZ: y\r\n\r\n",
  };
  for (const std::string& text : rows) {
    ResponseParser parser;
    EXPECT_EQ(parse(parser, text).progress, Progress::failed) << testing::PrintToString(text);
  }
}

TEST(ResponseParser, limits_hold) {
  const auto verdict = [](const std::string& text) {
    ResponseParser parser({.head_bytes = 100});
    parser.reset(Method::get);
    return parser.parse(text).progress;
  };
  const std::string start = "HTTP/1.1 200 OK\r\nX: ";
  EXPECT_EQ(verdict(start + std::string(96 - start.size(), 'v') + "\r\n\r\n"), Progress::complete);
  EXPECT_EQ(verdict(start + std::string(97 - start.size(), 'v') + "\r\n\r\n"), Progress::failed);
  EXPECT_EQ(verdict((start + std::string(100, 'v')).substr(0, 100)), Progress::failed);
  EXPECT_EQ(verdict((start + std::string(100, 'v')).substr(0, 99)), Progress::need_more);
  EXPECT_EQ(verdict("HTTP/1.1 200 " + std::string(90, 'r')), Progress::failed);
}

}  // namespace cairn::http
