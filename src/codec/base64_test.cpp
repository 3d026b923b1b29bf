#include "codec/base64.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace cairn::codec {

TEST(Base64, known_answers) {
  // The vectors of RFC 4648 section 10, and the two digits that base64url has not.
  const std::pair<std::string, std::string> answers[] = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {"\xFB\xFF\xFE", "+//+"},
  };
  for (const auto& [bytes, text] : answers) {
    EXPECT_EQ(encode_base64(as_bytes(bytes)), text);
    EXPECT_EQ(decode_base64(text), bytes) << text;
  }
}

TEST(Base64, every_other_spelling_is_refused) {
  for (const char* text :
       {"Zg",       "Zg=",      "Zm8",  "Z",    "Z===",  "====",  "=",      "==",   "Zg===", "Zm9v=",
        "Zm9v====", "Zg==Zg==", "Z=g=", "=Zg=", "Zm 9v", " Zg==", "Zg==\n", "-__-", "Zm9.",  "Zm9\xC3"})
    EXPECT_FALSE(decode_base64(text)) << text;
  EXPECT_FALSE(decode_base64(std::string_view("Zg=\0", 4)));
  // Same byte, trailing bits not zero.
  EXPECT_FALSE(decode_base64("Zh=="));
  EXPECT_FALSE(decode_base64("Zm9="));
}

RC_GTEST_PROP(Base64, bytes_round_trip, (const std::string& bytes)) {
  std::string text = encode_base64(as_bytes(bytes));
  RC_ASSERT(text.size() == (bytes.size() + 2) / 3 * 4);
  auto decoded = decode_base64(text);
  RC_ASSERT(decoded.has_value() && *decoded == bytes);
}

RC_GTEST_PROP(Base64, what_is_accepted_has_one_spelling, ()) {
  auto text =
      *rc::gen::container<std::string>(rc::gen::element('A', 'B', 'Q', 'g', 'w', '0', '9', '+', '/', '='));
  text.resize(text.size() / 4 * 4);
  if (auto bytes = decode_base64(text)) RC_ASSERT(encode_base64(as_bytes(*bytes)) == text);
}

}  // namespace cairn::codec
