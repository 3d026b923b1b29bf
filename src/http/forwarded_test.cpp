#include "http/forwarded.h"

#include <gtest/gtest.h>

#include <string>

#include "http/h1/parser.h"

namespace cairn::http {
namespace {

std::string client_of(std::string_view line) {
  const auto read = parse_forwarded(line);
  if (!read) return "malformed";
  return read->client ? io::format_peer(*read->client) : "hidden";
}

TEST(Forwarded, says_who_asks_by_which_name_and_how) {
  const auto read = parse_forwarded(R"(for=192.0.2.43;host="a.example:80";proto=https;by=203.0.113.43)");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(io::format_peer(*read->client), "192.0.2.43:0");
  EXPECT_EQ(read->host, "a.example:80");
  EXPECT_EQ(read->encrypted, true);
}

TEST(Forwarded, the_last_element_is_what_counts) {
  EXPECT_EQ(client_of("for=192.0.2.1, for=192.0.2.2;proto=http ,  for=192.0.2.3"), "192.0.2.3:0");
  const auto read = parse_forwarded("host=a;proto=https, for=192.0.2.3");
  EXPECT_EQ(read->host, "");
  EXPECT_EQ(read->encrypted, std::nullopt);
}

TEST(Forwarded, addresses_of_every_form) {
  EXPECT_EQ(client_of(R"(For="[2001:db8::17]:4711")"), "[2001:db8::17]:4711");
  EXPECT_EQ(client_of(R"(for="192.0.2.43:47011")"), "192.0.2.43:47011");
  EXPECT_EQ(client_of(R"(for="192.0.2.43:_hidden")"), "192.0.2.43:0");
  EXPECT_EQ(client_of("for=unknown"), "hidden");
  EXPECT_EQ(client_of("for=_gazonk"), "hidden");
  EXPECT_EQ(client_of("for=_uid.1000"), "uid:1000");
  EXPECT_EQ(client_of("proto=http"), "hidden");
}

TEST(Forwarded, what_could_be_read_in_two_ways_is_malformed) {
  for (const char* line : {"",
                           " ",
                           ",",
                           "for=192.0.2.1,",
                           ",for=192.0.2.1",
                           "for=192.0.2.1;;proto=http",
                           "for=192.0.2.1;",
                           "for",
                           "for=",
                           "=a",
                           "for =192.0.2.1",
                           "for= 192.0.2.1",
                           "for=192.0.2.1;for=192.0.2.2",
                           "for=192.0.2.1 for=192.0.2.2",
                           "for=192.0.2",
                           "for=1.2.3.4.5",
                           "for=256.1.1.1",
                           "for=2001:db8::1",
                           R"(for="[2001:db8::1")",
                           R"(for="[2001:db8::g]")",
                           R"(for="[192.0.2.1]")",
                           R"(for="192.0.2.1)",
                           R"(for="192.0.2.1:")",
                           R"(for="192.0.2.1:70000")",
                           R"(for="192.0.2.1:x")",
                           R"(for="192.0.2.\1")",
                           "for=a.example",
                           "for=192.0.2.1/8",
                           "proto=ftp",
                           "host=a/b",
                           R"(host="")",
                           R"(host="a b")",
                           "for=_"})
    EXPECT_EQ(client_of(line), "malformed") << line;
  // The whole list has to be right, not only its end.
  EXPECT_EQ(client_of("for=nonsense, for=192.0.2.1"), "malformed");
}

TEST(Forwarded, several_lines_are_one_list) {
  RequestParser parser({});
  const std::string_view head =
      "GET / HTTP/1.1\r\nHost: h\r\nForwarded: for=192.0.2.1\r\nA: b\r\nForwarded: for=192.0.2.2\r\n\r\n";
  ASSERT_EQ(parser.parse(head).progress, Progress::complete);
  EXPECT_EQ(io::format_peer(*parse_forwarded(parser.head.fields)->client), "192.0.2.2:0");
  RequestParser other({});
  const std::string_view none = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  ASSERT_EQ(other.parse(none).progress, Progress::complete);
  EXPECT_FALSE(parse_forwarded(other.head.fields).has_value());
}

TEST(Forwarded, what_is_written_is_read_as_it_was) {
  ForwardedText room;
  for (const char* line : {"for=192.0.2.43", R"(for="[2001:db8::17]")", "for=_uid.4294967295"}) {
    io::PeerAddress client = *parse_forwarded(line)->client;
    const auto read = parse_forwarded(format_forwarded(client, "[::1]:7400", true, room));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(*read->client, client);
    EXPECT_EQ(read->host, "[::1]:7400");
    EXPECT_EQ(read->encrypted, true);
  }
  io::PeerAddress four = *parse_forwarded("for=192.0.2.43")->client;
  EXPECT_EQ(format_client(four, room), "192.0.2.43");
  EXPECT_EQ(format_forwarded(four, "", false, room), "for=192.0.2.43;proto=http");
  EXPECT_EQ(format_forwarded(four, std::string(400, 'a'), false, room), "for=192.0.2.43;proto=http");
}

}  // namespace
}  // namespace cairn::http
