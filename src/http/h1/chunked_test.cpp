#include "http/h1/chunked.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::http {
namespace {

using namespace std::literals;
using Kind = ChunkedDecoder::Kind;

struct Decoded {
  Kind kind = Kind::need_more;
  std::string body;
  std::size_t consumed = 0;
  friend bool operator==(const Decoded&, const Decoded&) = default;
};

// Feeds `text` in pieces of at most `piece` bytes, the first of `first`.
Decoded decode(std::string_view text, std::size_t first, std::size_t piece) {
  ChunkedDecoder decoder;
  Decoded result;
  for (std::size_t size = first; result.consumed < text.size(); size = piece) {
    const std::string copy(text.substr(result.consumed, size));
    for (std::string_view input = copy; !input.empty();) {
      const auto step = decoder.next(input);
      result.body += step.data;
      result.consumed += step.consumed;
      result.kind = step.kind == Kind::data ? Kind::need_more : step.kind;
      if (step.kind == Kind::done || step.kind == Kind::failed) return result;
      input.remove_prefix(step.consumed);
    }
  }
  return result;
}

Decoded decode(std::string_view text) {
  const Decoded whole = decode(text, text.size(), text.size());
  EXPECT_EQ(decode(text, 1, 1), whole) << text;
  if (text.size() < 300)
    for (std::size_t cut = 1; cut < text.size(); ++cut)
      EXPECT_EQ(decode(text, cut, text.size()), whole) << cut << text;
  return whole;
}

}  // namespace

TEST(Chunked, bodies_are_decoded_and_what_follows_is_left) {
  struct {
    std::string text, body;
  } const rows[] = {
      {"0\r\n\r\n", ""},
      {"000\r\n\r\n", ""},
      {"5\r\nhello\r\n0\r\n\r\n", "hello"},
      {"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"},
      {"0000000000000003\r\na\r\n\r\n0\r\n\r\n", "a\r\n"},
      {"1;a\r\nx\r\n0;b=\"c; d\"\r\n\r\n", "x"},
      {"1;" + std::string(255, 'e') + "\r\nx\r\n0\r\n\r\n", "x"},
      {"1\r\nx\r\n0\r\nTrailer: value\r\nEmpty:\r\nContent-Length: 5\r\n\r\n", "x"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(decode(row.text), (Decoded{Kind::done, row.body, row.text.size()})) << row.text;
    EXPECT_EQ(decode(row.text + "GET / "), (Decoded{Kind::done, row.body, row.text.size()})) << row.text;
    EXPECT_EQ(decode(row.text.substr(0, row.text.size() - 1)).kind, Kind::need_more);
  }
}

TEST(Chunked, everything_else_is_malformed) {
  const std::string rows[] = {
      "\r\n",
      "g\r\n",
      "-1\r\n",
      "+1\r\n",
      "0x1\r\n",
      " 1\r\n",
      "1 \r\nx\r\n",
      "1\t;a\r\n",
      ";a\r\n",
      "1\nx\r\n",
      "1\rx",
      "1;a\nx",
      "1;a\x01\r\n",
      "1;\xe9\r\n",
      "1;a\0\r\n"s,
      "1\r\nxy\r\n",
      "1\r\nx\n",
      "1\r\nx\rx",
      "1\r\nx0\r\n",
      "8000000000000000\r\n",
      "ffffffffffffffff\r\n",
      "00000000000000001\r\n",
      "10000000000000000\r\n",
      "1;" + std::string(256, 'e') + "\r\nx\r\n",
      "0\r\n\n",
      "0\r\n\rx",
      "0\r\n x\r\n\r\n",
      "0\r\nX : y\r\n\r\n",
      "0\r\n: y\r\n\r\n",
      "0\r\nX\r\n\r\n",
      "0\r\nX: a\nb: c\r\n\r\n",
      "0\r\nX: a\rb\r\n\r\n",
      "0\r\nX: a\r\n b\r\n\r\n",
      "0\r\nX: \x01\r\n\r\n",
      "0\r\nX: \x7f\r\n\r\n",
      "0\r\nX\xe9: a\r\n\r\n",
  };
  for (const std::string& text : rows)
    EXPECT_EQ(decode(text).kind, Kind::failed) << testing::PrintToString(text);
}

TEST(Chunked, the_largest_size_is_2_to_the_63_minus_1) {
  ChunkedDecoder decoder;
  EXPECT_EQ(decoder.next("7fffffffffffffff\r\nabc").data, "abc");
  EXPECT_EQ(decoder.chunk_left(), (std::uint64_t{1} << 63) - 1 - 3);
}

TEST(Chunked, trailers_are_bounded_to_the_byte) {
  const auto trailers = [](std::size_t size) {  // with the empty line
    return "0\r\nX:" + std::string(size - 6, 'v') + "\r\n\r\n";
  };
  EXPECT_EQ(decode(trailers(8192)).kind, Kind::done);
  EXPECT_EQ(decode(trailers(8193)).kind, Kind::failed);
  const auto fields = [](int count) {
    std::string text = "0\r\n";
    for (int i = 0; i < count; ++i) text += "X: y\r\n";
    return text + "\r\n";
  };
  EXPECT_EQ(decode(fields(100)).kind, Kind::done);
  EXPECT_EQ(decode(fields(101)).kind, Kind::failed);
}

TEST(Chunked, many_extensions_together_are_refused) {
  std::string text;
  const std::string chunk = "1;" + std::string(255, 'e') + "\r\nx\r\n";
  for (int i = 0; i < 32; ++i) text += chunk;
  EXPECT_EQ(decode(text + "0\r\n\r\n").kind, Kind::done);
  EXPECT_EQ(decode(text + "1;\r\nx\r\n").kind, Kind::failed);
}

TEST(Chunked, a_decoder_is_as_new_after_reset) {
  ChunkedDecoder decoder;
  EXPECT_EQ(decoder.next("5;ext\r\nab").kind, Kind::data);
  decoder.reset();
  EXPECT_EQ(decoder.next("0\r\n\r\n").kind, Kind::done);
}

}  // namespace cairn::http
