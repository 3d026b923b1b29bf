#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn {

TEST(Utf8, the_edges_of_each_length_are_accepted) {
  for (const char* text : {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_utf8(text)) << text;
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
}

TEST(Utf8, overlong_surrogate_too_large_and_cut_sequences_are_refused) {
  for (const char* text : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF",
                           "\xE2\x82", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF0\x9F\x98",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "ok\xFE"})
    EXPECT_FALSE(is_utf8(text)) << text;
}

bool checks(std::string_view text, std::size_t piece) {
  Utf8Check check;
  for (std::size_t at = 0; at < text.size(); at += piece)
    if (!check.add(text.substr(at, piece))) return false;
  return check.may_end();
}

// Every pair of bytes that begins a sequence, with every kind of continuation behind it.
TEST(Utf8, a_text_in_pieces_is_judged_as_the_whole) {
  for (unsigned first = 0x7f; first <= 0xff; ++first) {
    for (unsigned second = 0x70; second <= 0xcf; ++second) {
      for (const char* rest : {"", "\x80", "\xBF\x80", "\x7F", "\xC0", "a\xC3\xA9"}) {
        std::string text{static_cast<char>(first), static_cast<char>(second)};
        text += rest;
        for (const std::size_t piece : {1u, 2u, 5u})
          EXPECT_EQ(checks(text, piece), is_utf8(text)) << first << " " << second << " " << rest;
      }
    }
  }
}

TEST(Utf8, a_piece_is_refused_at_its_first_wrong_byte) {
  Utf8Check check;
  EXPECT_TRUE(check.add("a\xE2"));
  EXPECT_FALSE(check.may_end());
  EXPECT_FALSE(check.add("\x28"));
}

TEST(Utf8, a_prefix_never_cuts_a_sequence) {
  EXPECT_EQ(utf8_prefix("a\xE2\x82\xAC", 4), "a\xE2\x82\xAC");
  EXPECT_EQ(utf8_prefix("a\xE2\x82\xAC", 3), "a");
  EXPECT_EQ(utf8_prefix("a\xE2\x82\xAC", 1), "a");
  EXPECT_EQ(utf8_prefix("\xE2\x82\xAC", 2), "");
}

}  // namespace cairn
