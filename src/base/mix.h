// Hashing for tables: fast, and with a secret seed unpredictable to a stranger who chooses the keys. Not for
// secrets.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace cairn {

// Two words into one that depends on every bit of both.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Takes eight bytes a step, then the last eight, which may overlap the step before.
inline std::uint64_t hash_of(std::string_view key, std::uint64_t seed) noexcept {
  std::uint64_t hash = seed ^ key.size();
  const auto take = [&](const char* from, std::size_t count) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, count);
    hash = mix(hash ^ word, 0xd6e8feb86659fd93u ^ seed);
  };
  for (std::size_t at = 0; at + 8 <= key.size(); at += 8) take(key.data() + at, 8);
  if (key.size() >= 8)
    take(key.data() + key.size() - 8, 8);
  else if (!key.empty())
    take(key.data(), key.size());
  return hash;
}

}  // namespace cairn
