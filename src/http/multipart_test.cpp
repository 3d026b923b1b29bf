#include "http/multipart.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/bytes.h"

namespace cairn::http {
namespace {

constexpr std::uint64_t random = 0xa0a1a2a3a4a5a6a7;

std::string write(const Multipart& made, std::string_view object, std::span<const ByteRange> ranges) {
  std::string body;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    body += made.head(i) + std::string(object.substr(ranges[i].first, ranges[i].size()));
  return body + made.end();
}

struct Part {
  std::string head;
  std::string bytes;
  bool operator==(const Part&) const = default;
};

// Reads a body as RFC 2046 section 5.1.1 has it, knowing only the Content-Type.
std::optional<std::vector<Part>> parse(std::string_view type, std::string_view body) {
  constexpr std::string_view before = "multipart/byteranges; boundary=";
  if (!type.starts_with(before)) return std::nullopt;
  const std::string delimiter = "\r\n--" + std::string(type.substr(before.size()));
  const std::string with_break = "\r\n" + std::string(body);  // the first delimiter needs none before it
  body = with_break;
  std::vector<Part> parts;
  if (body.find(delimiter) != 0) return std::nullopt;
  for (;;) {
    body.remove_prefix(delimiter.size());
    if (body == "--\r\n") return parts;
    if (!body.starts_with("\r\n")) return std::nullopt;
    body.remove_prefix(2);
    const std::size_t blank = body.find("\r\n\r\n");
    const std::size_t end = body.find(delimiter);
    if (blank == body.npos || end == body.npos || end < blank + 4) return std::nullopt;
    parts.push_back(
        {std::string(body.substr(0, blank)), std::string(body.substr(blank + 4, end - blank - 4))});
    body.remove_prefix(end);
  }
}

std::string object_of(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 % 251);
  return text;
}

TEST(Multipart, is_written_as_the_rfc_shows_it) {
  const std::array ranges{ByteRange{0, 1}, ByteRange{4, 9}};
  const Multipart made(random, "text/plain", 10, ranges);
  EXPECT_EQ(made.content_type(), "multipart/byteranges; boundary=cairn-a0a1a2a3a4a5a6a7");
  EXPECT_EQ(write(made, "0123456789", ranges),
            "--cairn-a0a1a2a3a4a5a6a7\r\n"
            "Content-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01"
            "\r\n--cairn-a0a1a2a3a4a5a6a7\r\n"
            "Content-Type: text/plain\r\nContent-Range: bytes 4-9/10\r\n\r\n456789"
            "\r\n--cairn-a0a1a2a3a4a5a6a7--\r\n");
}

TEST(Multipart, parses_back_to_the_ranges_as_they_were_asked) {
  const std::string object = object_of(100'000);
  // Overlapping, adjacent, backwards, one byte, line breaks within.
  const std::vector<ByteRange> all{{500, 999}, {0, 0},      {1, 1},           {900, 1100},
                                   {3, 3},     {0, 99'999}, {99'999, 99'999}, {10, 20'000}};
  for (std::size_t count = 2; count <= all.size(); ++count) {
    const std::span ranges(all.data(), count);
    const Multipart made(random, "application/octet-stream", object.size(), ranges);
    const std::string body = write(made, object, ranges);
    EXPECT_EQ(made.content_length(), body.size());
    std::vector<Part> expected;
    for (const ByteRange& range : ranges)
      expected.push_back({"Content-Type: application/octet-stream\r\nContent-Range: bytes " +
                              std::to_string(range.first) + "-" + std::to_string(range.last) + "/100000",
                          object.substr(range.first, range.size())});
    EXPECT_EQ(parse(made.content_type(), body), expected);
  }
}

TEST(Multipart, another_draw_is_another_boundary) {
  const std::array ranges{ByteRange{0, 0}, ByteRange{1, 1}};
  EXPECT_NE(Multipart(1, "a/b", 2, ranges).end(), Multipart(2, "a/b", 2, ranges).end());
}

TEST(Multipart, an_object_without_a_type_has_parts_without_one) {
  const std::array ranges{ByteRange{0, 0}, ByteRange{1, 1}};
  const Multipart made(random, "", 2, ranges);
  EXPECT_EQ(made.head(1), "\r\n--cairn-a0a1a2a3a4a5a6a7\r\nContent-Range: bytes 1-1/2\r\n\r\n");
}

TEST(Multipart, the_length_of_huge_ranges_is_exact) {
  constexpr std::uint64_t size = std::uint64_t{1} << 60;
  const std::array ranges{ByteRange{0, size - 1}, ByteRange{5, size - 2}};
  const Multipart made(random, "a/b", size, ranges);
  EXPECT_EQ(made.content_length(),
            size + size - 6 + made.head(0).size() + made.head(1).size() + made.end().size());
}

}  // namespace
}  // namespace cairn::http
