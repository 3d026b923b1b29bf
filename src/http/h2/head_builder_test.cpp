#include "http/h2/head_builder.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace cairn::http::h2 {
namespace {

using Fields = std::vector<std::pair<std::string_view, std::string_view>>;

const Fields good{{":method", "POST"}, {":scheme", "https"}, {":authority", "h:443"}, {":path", "/a/b?c=d"}};

Result<> build(HeadBuilder& builder, const Fields& fields, const Fields& more = {}, bool bodiless = true) {
  builder.reset({});
  for (const auto& [name, value] : fields) builder.add(name, value);
  for (const auto& [name, value] : more) builder.add(name, value);
  return builder.finish(bodiless);
}

ErrorCode code_of(const Fields& fields, const Fields& more = {}) {
  HeadBuilder builder;
  const Result<> built = build(builder, fields, more);
  return built ? ErrorCode::ok : built.error().code;
}

TEST(HeadBuilder, a_head_reads_as_one_of_http_1_1) {
  HeadBuilder builder;
  ASSERT_TRUE(build(builder, good, {{"accept", "*/*"}, {"x-corr-id", "12345678"}}).has_value());
  const RequestHead& head = builder.head();
  EXPECT_EQ(head.method, Method::post);
  EXPECT_EQ(head.path(), "/a/b");
  EXPECT_EQ(head.query(), "c=d");
  EXPECT_EQ(head.host(), "h:443");
  EXPECT_EQ(head.fields.get(FieldName::x_corr_id), "12345678");
  EXPECT_EQ(head.body, BodyKind::none);
}

TEST(HeadBuilder, it_serves_one_head_after_another) {
  HeadBuilder builder;
  ASSERT_TRUE(build(builder, good, {{"x-a", "1"}, {"cookie", "a"}}).has_value());
  ASSERT_FALSE(build(builder, good, {{"X-A", "1"}}).has_value());
  ASSERT_TRUE(build(builder, good).has_value());
  EXPECT_EQ(builder.head().fields.size(), 1u);
}

TEST(HeadBuilder, the_kind_of_body_follows_from_length_and_end) {
  HeadBuilder builder;
  ASSERT_TRUE(build(builder, good, {}, false).has_value());
  EXPECT_EQ(builder.head().body, BodyKind::chunked);
  ASSERT_TRUE(build(builder, good, {{"content-length", "5"}}, false).has_value());
  EXPECT_EQ(builder.head().body, BodyKind::length);
  EXPECT_EQ(builder.head().content_length, 5u);
  EXPECT_FALSE(build(builder, good, {{"content-length", "5"}}, true).has_value());
  EXPECT_TRUE(build(builder, good, {{"content-length", "0"}}, true).has_value());
  EXPECT_FALSE(build(builder, good, {{"content-length", "5"}, {"content-length", "5"}}, false).has_value());
}

TEST(HeadBuilder, crumbs_of_a_cookie_are_joined) {
  HeadBuilder builder;
  ASSERT_TRUE(build(builder, good, {{"cookie", "a=1"}, {"x-b", "2"}, {"cookie", "c=3"}}).has_value());
  EXPECT_EQ(builder.head().fields.get(FieldName::cookie), "a=1; c=3");
  EXPECT_FALSE(builder.head().fields.repeated(FieldName::cookie));
}

TEST(HeadBuilder, a_host_that_agrees_is_one_host) {
  HeadBuilder builder;
  ASSERT_TRUE(build(builder, good, {{"host", "H:443"}}).has_value());
  EXPECT_FALSE(builder.head().fields.repeated(FieldName::host));
  EXPECT_EQ(code_of(good, {{"host", "other"}}), ErrorCode::malformed);
  EXPECT_EQ(code_of(good, {{"host", "h:443"}, {"host", "h:443"}}), ErrorCode::malformed);
  const Fields without{{":method", "GET"}, {":scheme", "https"}, {":path", "/"}};
  ASSERT_TRUE(build(builder, without, {{"host", "h"}}).has_value());
  EXPECT_EQ(builder.head().host(), "h");
  EXPECT_EQ(code_of(without), ErrorCode::malformed);
}

TEST(HeadBuilder, what_could_be_read_as_another_head_is_malformed) {
  const Fields one[] = {
      {{"x-a", "b\r\nc: d"}},
      {{"x-a", "b\n"}},
      {{"x-a", std::string_view("b\0", 2)}},
      {{"x-a", " b"}},
      {{"x-a", "b\t"}},
      {{"x-a\r\ny", "b"}},
      {{"x a", "b"}},
      {{"x:a", "b"}},
      {{"", "b"}},
      {{"X-a", "b"}},
      {{"x-\x80", "b"}},
      {{"connection", "x"}},
      {{"keep-alive", "x"}},
      {{"upgrade", "x"}},
      {{"proxy-connection", "x"}},
      {{"te", "gzip"}},
      {{":path", "/"}},
      {{":status", "200"}},
      {{"x-a", "1"}, {":protocol", "websocket"}},
      {{"transfer-encoding", "chunked"}},
      {{"expect", "other"}},
      {{"content-length", "+1"}},
  };
  for (const Fields& more : one)
    EXPECT_EQ(code_of(good, more), ErrorCode::malformed) << more[0].first << more[0].second;
  for (const std::string_view path : {"", "a", "http://h/", "*", "/a b", "/a\r\nb", "/\x80", "/#"})
    EXPECT_EQ(code_of({{":method", "GET"}, {":scheme", "https"}, {":authority", "h"}, {":path", path}}),
              ErrorCode::malformed)
        << path;
  for (const std::string_view host : {"", "u@h", "h/", "h:99999", "a b"})
    EXPECT_EQ(code_of({{":method", "GET"}, {":scheme", "https"}, {":authority", host}, {":path", "/"}}),
              ErrorCode::malformed)
        << host;
  for (const std::string_view method : {"", "G T", "GET\r\n", "CONNECT"})
    EXPECT_EQ(code_of({{":method", method}, {":scheme", "https"}, {":authority", "h"}, {":path", "/"}}),
              ErrorCode::malformed)
        << method;
  for (std::size_t left_out = 0; left_out < good.size(); ++left_out) {
    Fields some = good;
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(left_out));
    EXPECT_EQ(code_of(some), ErrorCode::malformed) << good[left_out].first;
  }
}

TEST(HeadBuilder, limits_have_their_own_answers) {
  const std::string long_path = "/" + std::string(8192, 'a'), longer(33'000, 'v');
  EXPECT_EQ(code_of({{":method", "GET"}, {":scheme", "https"}, {":authority", "h"}, {":path", long_path}}),
            ErrorCode::uri_too_long);
  EXPECT_EQ(code_of(good, {{"x-a", longer}}), ErrorCode::headers_too_large);
  EXPECT_EQ(code_of(good, Fields(100, {"x-a", "b"})), ErrorCode::headers_too_large);
  EXPECT_EQ(code_of(good, Fields(99, {"x-a", "b"})), ErrorCode::ok);
  EXPECT_EQ(code_of({{":method", "BREW"}, {":scheme", "https"}, {":authority", "h"}, {":path", "/"}}),
            ErrorCode::not_implemented);
  EXPECT_EQ(code_of({{":method", "TRACE"}, {":scheme", "https"}, {":authority", "h"}, {":path", "/"}}),
            ErrorCode::not_implemented);
}

TEST(HeadBuilder, no_more_is_kept_than_the_limit) {
  HeadBuilder builder;
  builder.reset({});
  const std::string value(1000, 'v');
  for (int i = 0; i < 1000; ++i) builder.add(i % 2 == 0 ? "cookie" : "x-a", value);
  EXPECT_LE(builder.kept(), HeadLimits{}.head_bytes);
  EXPECT_GE(builder.seen(), 1000u * 1000);
}

TEST(HeadBuilder, an_extended_connect_is_a_get_with_an_upgrade) {
  const Fields connect{{":method", "CONNECT"},
                       {":protocol", "websocket"},
                       {":scheme", "https"},
                       {":authority", "h"},
                       {":path", "/s"}};
  HeadBuilder builder;
  ASSERT_TRUE(build(builder, connect, {}, false).has_value());
  EXPECT_EQ(builder.upgrade(), "websocket");
  EXPECT_EQ(builder.head().method, Method::get);
  EXPECT_EQ(builder.head().body, BodyKind::none);
  EXPECT_EQ(code_of(connect, {{"content-length", "1"}}), ErrorCode::malformed);
  ASSERT_TRUE(build(builder, good).has_value());
  EXPECT_EQ(builder.upgrade(), "");
}

}  // namespace
}  // namespace cairn::http::h2
