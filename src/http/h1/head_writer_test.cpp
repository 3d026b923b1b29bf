#include "http/h1/head_writer.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace cairn::http {

TEST(HeadWriter, a_head_is_written_as_told) {
  char out[512];
  HeadWriter writer(out);
  writer.status(206)
      .append_field("X-Corr-ID", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
      .append_number(FieldName::content_length, 18446744073709551615u)
      .append_date(FieldName::date, {784111777000})
      .append_lines("X-Content-Type-Options: nosniff\r\n")
      .append_number("Age", 0);
  EXPECT_EQ(writer.finish(),
            "HTTP/1.1 206 Partial Content\r\nX-Corr-ID: 01ARZ3NDEKTSV4RRFFQ69G5FAV\r\n"
            "Content-Length: 18446744073709551615\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "X-Content-Type-Options: nosniff\r\nAge: 0\r\n\r\n");
}

TEST(HeadWriter, a_request_line_is_written_or_refused) {
  char out[128];
  EXPECT_EQ(HeadWriter(out).request("GET", "/o/x?y").append_field(FieldName::host, "a").finish(),
            "GET /o/x?y HTTP/1.1\r\nHost: a\r\n\r\n");
  for (const char* target : {"", "/a b", "/a\r\nX: y", "/\x80", "/a#b"})
    EXPECT_FALSE(HeadWriter(out).request("GET", target).finish()) << target;
  EXPECT_FALSE(HeadWriter(out).request("GE T", "/").finish());
}

TEST(HeadWriter, every_status_of_the_error_table_has_its_reason) {
#define ERROR_CODE(name, status, retry) \
  if (status != 0) EXPECT_NE(reason_of(status), "") << status;
#include "base/error_codes.def"
#undef ERROR_CODE
  for (int status : {100, 200, 201, 202, 204, 206, 304}) EXPECT_NE(reason_of(status), "") << status;
}

TEST(HeadWriter, a_status_without_a_name_is_still_a_status_line) {
  char out[64];
  EXPECT_EQ(HeadWriter(out).status(299).finish(), "HTTP/1.1 299 \r\n\r\n");
}

TEST(HeadWriter, nothing_can_split_the_head) {
  using namespace std::literals;
  char out[256];
  for (std::string_view value :
       {"a\r\nX: y"sv, "a\rb"sv, "a\nb"sv, "a\0b"sv, "\x7f"sv, "0123456789abcdef\n"sv})
    EXPECT_FALSE(HeadWriter(out).status(200).append_field("X", value).finish());
  for (std::string_view name : {""sv, "X Y"sv, "X:"sv, "X\r\nY"sv, "X\0"sv, "\xe9"sv})
    EXPECT_FALSE(HeadWriter(out).status(200).append_field(name, "v").finish());
  EXPECT_TRUE(HeadWriter(out).status(200).append_field("X", "a\tb \xc3\xa9").finish());
}

TEST(HeadWriter, too_little_room_fails_and_writes_nothing_behind_it) {
  const std::string whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
  for (std::size_t room = 0; room <= whole.size(); ++room) {
    std::string out(room + 8, '#');
    HeadWriter writer(std::span(out.data(), room));
    const auto head = writer.status(200).append_number(FieldName::content_length, 5).finish();
    EXPECT_EQ(head.has_value(), room == whole.size()) << room;
    EXPECT_EQ(writer.failed(), room != whole.size());
    EXPECT_EQ(out.substr(room), "########");
  }
}

TEST(HeadWriter, decimals_of_every_length) {
  std::uint64_t value = 0;
  std::string text;
  for (int i = 1; i <= 19; ++i) {
    value = value * 10 + static_cast<std::uint64_t>(i % 10);
    text += static_cast<char>('0' + i % 10);
    char out[decimal_size_max];
    EXPECT_EQ(std::string_view(out, format_decimal_to(value, out)), text);
  }
}

}  // namespace cairn::http
