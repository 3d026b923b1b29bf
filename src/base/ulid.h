// Ulid: 48 bits of wall milliseconds and 80 random bits, 26 characters of Crockford base 32.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace cairn {

struct Ulid {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend constexpr auto operator<=>(const Ulid&, const Ulid&) = default;
};

// The caller brings time and randomness: base has neither.
Ulid make_ulid(WallTime time, std::uint64_t random_high, std::uint64_t random_low) noexcept;
constexpr std::size_t ulid_text_size = 26;
void format_ulid_to(const Ulid& ulid, char* out) noexcept;
std::string format_ulid(const Ulid& ulid);
// Case-insensitive; the letters I, L, O and U are refused, as is a value over 128 bits.
std::optional<Ulid> parse_ulid(std::string_view text) noexcept;

}  // namespace cairn
