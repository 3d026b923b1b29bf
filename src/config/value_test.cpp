#include "config/value.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/endpoint.h"
#include "config/suggest.h"

namespace cairn::config {
namespace {

const std::vector<std::string> none;

bool takes(Type type, const Raw& raw, Unit unit = Unit::same) {
  return convert(raw, type, {"a", "b"}, unit).has_value();
}
Value taken(Type type, const Raw& raw, Unit unit = Unit::same) {
  auto value = convert(raw, type, {"a", "b"}, unit);
  EXPECT_TRUE(value.has_value()) << (value ? "" : value.error());
  return value.value_or(Value{});
}

TEST(Value, every_type_is_read_from_text) {
  EXPECT_EQ(taken(Type::boolean, Text{"true"}), Value(true));
  EXPECT_EQ(taken(Type::integer, Text{"-5"}), Value(std::int64_t{-5}));
  EXPECT_EQ(taken(Type::duration, Text{"250ms"}), Value(Duration::millis(250)));
  EXPECT_EQ(taken(Type::bytes, Text{"1MiB"}), Value(Bytes::mib(1)));
  EXPECT_EQ(taken(Type::bytes, Text{"4096"}), Value(Bytes{4096}));
  EXPECT_EQ(taken(Type::rate, Text{"50MiB/s"}), Value(Rate{50u << 20}));
  EXPECT_EQ(taken(Type::real, Text{"0.5"}), Value(0.5));
  EXPECT_EQ(taken(Type::string, Text{"x y"}), Value(std::string("x y")));
  EXPECT_EQ(taken(Type::list, Text{"x,y"}), Value(std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(taken(Type::list, Text{""}), Value(std::vector<std::string>{}));
  EXPECT_EQ(taken(Type::choice, Text{"b"}), Value(Choice{1}));
}

TEST(Value, every_type_is_read_from_toml) {
  EXPECT_EQ(taken(Type::boolean, true), Value(true));
  EXPECT_EQ(taken(Type::integer, std::int64_t{7}), Value(std::int64_t{7}));
  EXPECT_EQ(taken(Type::duration, std::string("5s")), Value(Duration::seconds(5)));
  EXPECT_EQ(taken(Type::bytes, std::string("2GiB")), Value(Bytes::gib(2)));
  EXPECT_EQ(taken(Type::bytes, std::int64_t{12}), Value(Bytes{12}));
  EXPECT_EQ(taken(Type::real, std::int64_t{10}), Value(10.0));
  EXPECT_EQ(taken(Type::list, std::vector<std::string>{"x"}), Value(std::vector<std::string>{"x"}));
}

TEST(Value, the_wrong_type_is_refused) {
  EXPECT_FALSE(takes(Type::boolean, std::string("true")));  // in TOML a text is not a boolean
  EXPECT_FALSE(takes(Type::boolean, Text{"yes"}));
  EXPECT_FALSE(takes(Type::integer, std::string("5")));
  EXPECT_FALSE(takes(Type::integer, 5.0));
  EXPECT_FALSE(takes(Type::integer, Text{"5 "}));
  EXPECT_FALSE(takes(Type::integer, Text{"99999999999999999999"}));
  EXPECT_FALSE(takes(Type::duration, std::int64_t{5}));
  EXPECT_FALSE(takes(Type::duration, Text{"5"}));
  EXPECT_FALSE(takes(Type::bytes, std::int64_t{-1}));
  EXPECT_FALSE(takes(Type::rate, Text{"50MiB"}));
  EXPECT_FALSE(takes(Type::real, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(takes(Type::real, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(takes(Type::real, Text{"inf"}));
  EXPECT_FALSE(takes(Type::string, std::int64_t{5}));
  EXPECT_FALSE(takes(Type::list, std::string("x")));
  EXPECT_FALSE(takes(Type::choice, Text{"c"}));
  for (int type = 0; type <= static_cast<int>(Type::choice); ++type)
    EXPECT_FALSE(takes(static_cast<Type>(type), Unsupported{"{}"}));
}

TEST(Value, texts_are_utf8_without_control_characters) {
  EXPECT_TRUE(takes(Type::string, Text{"h\xc3\xa9"}));
  EXPECT_FALSE(takes(Type::string, Text{"a\nb"}));
  EXPECT_FALSE(takes(Type::string, Text{std::string("a\0b", 3)}));
  EXPECT_FALSE(takes(Type::string, Text{"\xff"}));
  EXPECT_FALSE(takes(Type::string, Text{"\xc0\x80"}));
  EXPECT_FALSE(takes(Type::string, Text{"\xed\xa0\x80"}));
  EXPECT_FALSE(takes(Type::string, Text{"\xc3"}));
  EXPECT_FALSE(takes(Type::list, std::vector<std::string>{"ok", "a\tb"}));
}

TEST(Value, plain_numbers_are_taken_in_the_unit_of_the_name) {
  EXPECT_EQ(taken(Type::duration, std::int64_t{5}, Unit::seconds), Value(Duration::seconds(5)));
  EXPECT_EQ(taken(Type::duration, Text{"150"}, Unit::millis), Value(Duration::millis(150)));
  EXPECT_FALSE(takes(Type::duration, std::string("5s"), Unit::seconds));
  EXPECT_FALSE(takes(Type::duration, std::int64_t{-1}, Unit::seconds));
  EXPECT_FALSE(takes(Type::duration, std::numeric_limits<std::int64_t>::max(), Unit::seconds));
}

TEST(Value, printed_forms) {
  EXPECT_EQ(format_toml(Value(Duration::millis(1500)), none), "\"1500ms\"");
  EXPECT_EQ(format_toml(Value(std::string("a\"b\\c")), none), R"("a\"b\\c")");
  EXPECT_EQ(format_toml(Value(std::vector<std::string>{"x", "y"}), none), R"(["x", "y"])");
  EXPECT_EQ(format_toml(Value(Choice{1}), {"a", "b"}), "\"b\"");
  EXPECT_EQ(format_value(Value(std::vector<std::string>{"x", "y"}), none), "x,y");
  EXPECT_EQ(format_raw(std::string("two\nlines")), "\"two\\u000alines\"");
  EXPECT_LT(format_raw(std::string(1000, 'x')).size(), 100u);
}

TEST(Endpoint, host_and_port_are_parsed) {
  EXPECT_EQ(parse_endpoint("127.0.0.1:7410"), (Endpoint{"127.0.0.1", 7410}));
  EXPECT_EQ(parse_endpoint("[::1]:0"), (Endpoint{"::1", 0}));
  EXPECT_EQ(parse_endpoint("node-1.example:80"), (Endpoint{"node-1.example", 80}));
  for (const char* wrong : {"", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:+1",
                            "1.2.3:80", "::1:80", "[::1:80", "[x]:80", "a b:80", "-x:80", "256.0.0.1:1"})
    EXPECT_FALSE(parse_endpoint(wrong)) << wrong;
  EXPECT_EQ(format_endpoint({"::1", 80}), "[::1]:80");
  EXPECT_EQ(format_endpoint({"localhost", 80}), "localhost:80");
}

TEST(Endpoint, only_what_cannot_leave_the_machine_is_loopback) {
  for (const char* host : {"127.0.0.1", "127.8.8.8", "::1", "localhost"})
    EXPECT_TRUE((Endpoint{host, 1}.is_loopback())) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "localhost.example", "128.0.0.1"})
    EXPECT_FALSE((Endpoint{host, 1}.is_loopback())) << host;
}

TEST(Suggest, distance_counts_edits_and_swaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("max_conn", "max_conns"), 1u);
  EXPECT_EQ(edit_distance("maxc_onns", "max_conns"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Suggest, finds_what_was_meant_and_nothing_else) {
  const std::vector<std::string_view> known{"server.bind", "server.max_conns", "timeouts.read"};
  EXPECT_EQ(suggest("server.max_conn", known), "server.max_conns");
  EXPECT_EQ(suggest("limits.max_conns", known), "server.max_conns");
  EXPECT_EQ(suggest("colour", known), std::nullopt);
}

}  // namespace
}  // namespace cairn::config
