#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

// Latencies in logarithmic buckets, 32 to an octave: 3 % exact at any scale.
class Histogram {
 public:
  void add(uint64_t ns) {
    ++buckets_[bucket(ns)];
    ++count_;
  }
  void clear() { *this = {}; }
  double quantile_us(double q) const {
    if (count_ == 0) return 0;
    const auto rank = static_cast<uint64_t>(q * static_cast<double>(count_ - 1));
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen > rank) return static_cast<double>(lowest(i)) / 1000.0;
    }
    return 0;
  }

 private:
  static constexpr int sub_bits = 5;
  static size_t bucket(uint64_t v) {
    if (v < (1U << sub_bits)) return v;
    const auto shift = static_cast<int>(std::bit_width(v)) - sub_bits - 1;
    return (static_cast<size_t>(shift + 1) << sub_bits) + ((v >> shift) & ((1U << sub_bits) - 1));
  }
  static uint64_t lowest(size_t i) {
    if (i < (1U << sub_bits)) return i;
    const size_t shift = (i >> sub_bits) - 1;
    return ((1ULL << sub_bits) + (i & ((1U << sub_bits) - 1))) << shift;
  }
  std::array<uint64_t, 2048> buckets_{};
  uint64_t count_ = 0;
};
