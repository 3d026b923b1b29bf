#include "base/bytes.h"

namespace cairn {
namespace {

int digit_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void format_hex_to(ByteView bytes, char* out) noexcept {
  static constexpr char digits[] = "0123456789abcdef";
  for (std::byte b : bytes) {
    *out++ = digits[std::to_integer<unsigned>(b) >> 4];
    *out++ = digits[std::to_integer<unsigned>(b) & 15];
  }
}

std::string format_hex(ByteView bytes) {
  std::string text(bytes.size() * 2, '\0');
  format_hex_to(bytes, text.data());
  return text;
}

bool parse_hex_to(std::string_view text, MutableByteView out) noexcept {
  if (text.size() != out.size() * 2) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    int high = digit_value(text[2 * i]);
    int low = digit_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::byte>(high * 16 + low);
  }
  return true;
}

}  // namespace cairn
