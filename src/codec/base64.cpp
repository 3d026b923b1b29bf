#include "codec/base64.h"

namespace cairn::codec {
namespace {

constexpr Base64Alphabet standard("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", true);

}  // namespace

std::string encode_base64(ByteView bytes) { return standard.encode(bytes); }
Result<std::string> decode_base64(std::string_view text) { return standard.decode(text); }

std::string Base64Alphabet::encode(ByteView bytes) const {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (std::byte b : bytes) {
    bits = bits << 8 | std::to_integer<std::uint32_t>(b);
    for (count += 8; count >= 6; count -= 6) text += digits_[bits >> (count - 6) & 63];
  }
  if (count > 0) text += digits_[bits << (6 - count) & 63];
  if (padded_) text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

Result<std::string> Base64Alphabet::decode(std::string_view text) const {
  // One digit alone carries 6 bits: not a byte. In a padded text, one digit would need three '='; the third
  // is then refused as a foreign character.
  if (padded_ ? text.size() % 4 != 0 : text.size() % 4 == 1)
    return fail(ErrorCode::malformed, "base64: impossible length", Side::client);
  for (int i = 0; padded_ && i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (char c : text) {
    int value = values_[static_cast<unsigned char>(c)];
    if (value < 0) return fail(ErrorCode::malformed, "base64: foreign character", Side::client);
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  if ((bits & ((1u << count) - 1)) != 0)
    return fail(ErrorCode::malformed, "base64: non-zero trailing bits", Side::client);
  return bytes;
}

}  // namespace cairn::codec
