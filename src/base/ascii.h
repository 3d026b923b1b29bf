// Letters of ASCII, whatever the locale says.
#pragma once

namespace cairn {

constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }
constexpr bool is_letter_or_digit(char c) noexcept {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z');
}

}  // namespace cairn
