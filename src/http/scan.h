// Character classes of the HTTP grammar, and the scans that read 16 bytes at a time.
//
// Every scan stays inside [p, end): the last bytes of a buffer are looked up in the table. Without SSE2 all
// bytes are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/ascii.h"

namespace cairn::http {

using CharacterSet = std::array<bool, 256>;

constexpr CharacterSet character_set(std::string_view characters) noexcept {
  CharacterSet set{};
  for (char c : characters) set[static_cast<unsigned char>(c)] = true;
  return set;
}

inline constexpr CharacterSet token_characters =
    character_set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

constexpr bool is_token_character(char c) noexcept { return token_characters[static_cast<unsigned char>(c)]; }
constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }
constexpr bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
// The characters that a URI may hold unescaped (RFC 3986), except the `#` of a fragment, which is never sent.
inline constexpr CharacterSet target_characters =
    character_set("!$%&'()*+,-./:;=?@[]_~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
constexpr bool is_target_character(char c) noexcept {
  return target_characters[static_cast<unsigned char>(c)];
}
// -1 when `c` is no hex digit.
constexpr int hex_value(char c) noexcept {
  if (is_digit(c)) return c - '0';
  const char l = static_cast<char>(c | 0x20);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

// The first byte in [p, end) for which `one` holds, or end. `many(block)` gives the same verdict for 16
// bytes: a byte of all ones where it holds.
#if defined(__SSE2__)
template <class Many, class One>
inline const char* scan_until(const char* p, const char* end, Many many, One one) noexcept {
  for (; end - p >= 16; p += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    if (const auto hits = static_cast<unsigned>(_mm_movemask_epi8(many(block))))
      return p + __builtin_ctz(hits);
  }
  while (p != end && !one(*p)) ++p;
  return p;
}
#define CAIRN_SCAN_BLOCK(expression) [](__m128i block) { return expression; }
#else
template <class Many, class One>
inline const char* scan_until(const char* p, const char* end, Many, One one) noexcept {
  while (p != end && !one(*p)) ++p;
  return p;
}
#define CAIRN_SCAN_BLOCK(expression) 0
#endif

// The first control character (HTAB among them).
inline const char* find_control(const char* p, const char* end) noexcept {
  return scan_until(
      p, end,
      CAIRN_SCAN_BLOCK(_mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block),
                                    _mm_cmpeq_epi8(block, _mm_set1_epi8(0x7f)))),
      is_control);
}

inline const char* find_colon(const char* p, const char* end) noexcept {
  return scan_until(p, end, CAIRN_SCAN_BLOCK(_mm_cmpeq_epi8(block, _mm_set1_epi8(':'))),
                    [](char c) { return c == ':'; });
}

// The first byte that is no target character, or is '?'. The comparisons are signed, so bytes above 0x7f are
// negative. Where two refused characters differ in one bit, that bit is set first, and one comparison finds
// both: `"` and `#`, `<` and `>`, `\` and `^`. All bytes above `z` are refused except `~`.
inline const char* find_target_stop(const char* p, const char* end) noexcept {
  return scan_until(
      p, end,
      CAIRN_SCAN_BLOCK(_mm_or_si128(
          _mm_or_si128(_mm_or_si128(_mm_cmplt_epi8(block, _mm_set1_epi8(0x21)),
                                    _mm_andnot_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('~')),
                                                     _mm_cmpgt_epi8(block, _mm_set1_epi8('z')))),
                       _mm_or_si128(_mm_cmpeq_epi8(_mm_or_si128(block, _mm_set1_epi8(1)), _mm_set1_epi8('#')),
                                    _mm_cmpeq_epi8(block, _mm_set1_epi8('`')))),
          _mm_or_si128(
              _mm_or_si128(_mm_cmpeq_epi8(_mm_or_si128(block, _mm_set1_epi8(2)), _mm_set1_epi8('>')),
                           _mm_cmpeq_epi8(_mm_or_si128(block, _mm_set1_epi8(2)), _mm_set1_epi8('^'))),
              _mm_cmpeq_epi8(block, _mm_set1_epi8('?'))))),
      [](char c) { return c == '?' || !is_target_character(c); });
}

}  // namespace cairn::http
