#include "codec/base64url.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace cairn::codec {

TEST(Base64url, known_answers) {
  // The vectors of RFC 4648 section 10, without their padding.
  const std::pair<std::string, std::string> answers[] = {
      {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
      {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xFB\xFF\xFE", "-__-"},
  };
  for (const auto& [bytes, text] : answers) {
    EXPECT_EQ(encode_base64url(as_bytes(bytes)), text);
    EXPECT_EQ(decode_base64url(text), bytes) << text;
  }
}

TEST(Base64url, every_other_spelling_is_refused) {
  for (const char* text :
       {"Zg==", "Zm8=", "Z", "Zm9vY", "Zm 9v", " Zg", "Zg\n", "+__+", "-//-", "Zm9v.", "Zm9\xC3"})
    EXPECT_FALSE(decode_base64url(text)) << text;
  EXPECT_FALSE(decode_base64url(std::string_view("Zg\0", 3)));
  // Same byte, trailing bits not zero.
  EXPECT_FALSE(decode_base64url("Zh"));
  EXPECT_FALSE(decode_base64url("Zm9"));
}

RC_GTEST_PROP(Base64url, bytes_round_trip, (const std::string& bytes)) {
  std::string text = encode_base64url(as_bytes(bytes));
  RC_ASSERT(text.find_first_of("+/= \n") == std::string::npos);
  auto decoded = decode_base64url(text);
  RC_ASSERT(decoded.has_value() && *decoded == bytes);
}

RC_GTEST_PROP(Base64url, what_is_accepted_has_one_spelling, ()) {
  auto text = *rc::gen::container<std::string>(
      rc::gen::element('A', 'B', 'Z', 'a', 'z', '0', '9', '-', '_', '=', '+'));
  if (auto bytes = decode_base64url(text)) RC_ASSERT(encode_base64url(as_bytes(*bytes)) == text);
}

}  // namespace cairn::codec
