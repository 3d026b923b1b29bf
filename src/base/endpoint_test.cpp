#include "base/endpoint.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

TEST(Endpoint, every_form_is_parsed_and_formatted_back) {
  for (const std::string text :
       {"127.0.0.1:7410", "0.0.0.0:0", "[::1]:7410", "[2001:db8::1]:65535", "host.example:80", "localhost:1",
        "a-b:2", "unix:/run/cairn/x.sock", "unix:relative.sock"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint.has_value()) << text;
    EXPECT_EQ(format_endpoint(*endpoint), text);
  }
}

TEST(Endpoint, its_parts_are_where_they_belong) {
  EXPECT_EQ(*parse_endpoint("[::1]:7410"), (Endpoint{"::1", 7410, {}}));
  EXPECT_EQ(*parse_endpoint("unix:/a:80"), (Endpoint{"", 0, "/a:80"}));
}

TEST(Endpoint, anything_else_is_refused) {
  for (const char* text :
       {"",         ":",        ":80",    "host",   "host:",   "host:x",     "host:-1", "host:65536",
        "host:80 ", " host:80", "::1:80", "[::1]",  "[::1]80", "[host]:80",  "[]:80",   "256.0.0.1:80",
        "1.2.3:80", "-a:80",    ".a:80",  "a_b:80", "unix:",   "http://h:80"})
    EXPECT_FALSE(parse_endpoint(text).has_value()) << text;
  EXPECT_FALSE(parse_endpoint(std::string(254, 'a') + ":80").has_value());
}

TEST(Endpoint, a_peer_may_be_a_url_without_a_path) {
  EXPECT_EQ(*parse_peer("https://h:7410"), (Endpoint{.host = "h", .port = 7410, .tls = true}));
  EXPECT_EQ(*parse_peer("https://h"), (Endpoint{.host = "h", .port = 443, .tls = true}));
  EXPECT_EQ(*parse_peer("https://[::1]:1/"), (Endpoint{.host = "::1", .port = 1, .tls = true}));
  EXPECT_EQ(*parse_peer("http://h"), (Endpoint{"h", 80, {}}));
  EXPECT_EQ(*parse_peer("h:1"), (Endpoint{"h", 1, {}}));
  EXPECT_EQ(*parse_peer("unix:/x"), (Endpoint{"", 0, "/x"}));
  for (const char* text :
       {"https://", "https://h/x", "https://h:x", "https://unix:/x", "ftp://h:1", "http:h:1", "h"})
    EXPECT_FALSE(parse_peer(text).has_value()) << text;
}

TEST(Endpoint, only_addresses_of_this_machine_are_loopback) {
  for (const char* text : {"127.0.0.1:1", "127.255.0.9:1", "[::1]:1", "localhost:1", "unix:/x"})
    EXPECT_TRUE(parse_endpoint(text)->is_loopback()) << text;
  for (const char* text :
       {"0.0.0.0:1", "128.0.0.1:1", "[::]:1", "[::2]:1", "localhost.example:1", "[::ffff:10.0.0.1]:1"})
    EXPECT_FALSE(parse_endpoint(text)->is_loopback()) << text;
}

}  // namespace
}  // namespace cairn
