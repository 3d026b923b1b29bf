// base64 (RFC 4648): section 4, with padding, as notes, proofs and keys in JSON are written; and the body
// that it shares with base64url.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace cairn::codec {

std::string encode_base64(ByteView bytes);

// Strict, so that every byte string has exactly one spelling: missing or superfluous padding, blanks, the
// letters of base64url and non-zero trailing bits are malformed.
Result<std::string> decode_base64(std::string_view text);

// One of the spellings of base64: its 64 digits, and whether the last four are filled up with '='.
class Base64Alphabet {
 public:
  // The digits must be 64 different ones that live as long as the program.
  consteval Base64Alphabet(const char* digits, bool padded) : digits_(digits), padded_(padded) {
    values_.fill(-1);
    for (std::size_t i = 0; i < 64; ++i)
      values_[static_cast<unsigned char>(digits[i])] = static_cast<std::int8_t>(i);
  }

  std::string encode(ByteView bytes) const;
  Result<std::string> decode(std::string_view text) const;

 private:
  const char* digits_;
  bool padded_;
  std::array<std::int8_t, 256> values_{};
};

}  // namespace cairn::codec
