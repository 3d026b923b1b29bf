// Random: the deterministic number source of a shard, for jitter, ids and choices. Never for keys.
//
// Integer-only and bit-exact everywhere: the standard distributions are not, and a simulated run must
// be the same on every machine.
#pragma once

#include <bit>
#include <cstdint>

namespace cairn {

class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : state_) word = split_mix(seed);
  }

  std::uint64_t next() noexcept {  // xoshiro256**
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  // Uniform in [0, bound); bound > 0. The bias of one multiplication (< 2^-32 for small bounds) is fine here.
  std::uint64_t below(std::uint64_t bound) noexcept {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  // True with probability numerator/denominator.
  bool chance(std::uint64_t numerator, std::uint64_t denominator) noexcept {
    return below(denominator) < numerator;
  }

 private:
  static std::uint64_t split_mix(std::uint64_t& seed) noexcept {
    std::uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_[4];
};

}  // namespace cairn
