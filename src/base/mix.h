// mix: two words into one that depends on every bit of both, for tables. Not for secrets.
#pragma once

#include <cstdint>

namespace cairn {

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace cairn
