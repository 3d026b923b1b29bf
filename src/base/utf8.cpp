#include "base/utf8.h"

namespace cairn {
namespace {

constexpr unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

constexpr bool is_continuation(unsigned char c) { return (c & 0xC0) == 0x80; }

}  // namespace

std::size_t utf8_sequence_size(std::string_view text) noexcept {
  if (text.empty()) return 0;
  unsigned char first = byte_at(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < size) return 0;
  // Only the second byte's range depends on the first: it excludes overlong forms, surrogates and code points
  // above U+10FFFF.
  unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte_at(text, 1) < low || byte_at(text, 1) > high) return 0;
  for (std::size_t i = 2; i < size; ++i)
    if (!is_continuation(byte_at(text, i))) return 0;
  return size;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    std::size_t size = utf8_sequence_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string_view utf8_prefix(std::string_view text, std::size_t size) noexcept {
  if (text.size() <= size) return text;
  while (size > 0 && is_continuation(byte_at(text, size))) --size;
  return text.substr(0, size);
}

bool Utf8Check::add(std::string_view piece) noexcept {
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (left_ > 0) {
      if (byte < low_ || byte > high_) return false;
      low_ = 0x80;
      high_ = 0xBF;
      --left_;
    } else if (byte >= 0x80) {
      if (byte < 0xC2 || byte > 0xF4) return false;
      left_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
      // As in utf8_sequence_size().
      low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
      high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    }
  }
  return true;
}

}  // namespace cairn
