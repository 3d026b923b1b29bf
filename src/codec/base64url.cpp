#include "codec/base64url.h"

#include <array>
#include <cstdint>

namespace cairn::codec {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr std::array<std::int8_t, 256> digit_values = [] {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    values[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  return values;
}();

}  // namespace

std::string encode_base64url(ByteView bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (std::byte b : bytes) {
    bits = bits << 8 | std::to_integer<std::uint32_t>(b);
    for (count += 8; count >= 6; count -= 6) text += alphabet[bits >> (count - 6) & 63];
  }
  if (count > 0) text += alphabet[bits << (6 - count) & 63];
  return text;
}

Result<std::string> decode_base64url(std::string_view text) {
  // One digit alone carries 6 bits: not a byte.
  if (text.size() % 4 == 1) return fail(ErrorCode::malformed, "base64url: impossible length", Side::client);
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (char c : text) {
    int value = digit_values[static_cast<unsigned char>(c)];
    if (value < 0) return fail(ErrorCode::malformed, "base64url: foreign character", Side::client);
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  if ((bits & ((1u << count) - 1)) != 0)
    return fail(ErrorCode::malformed, "base64url: non-zero trailing bits", Side::client);
  return bytes;
}

}  // namespace cairn::codec
