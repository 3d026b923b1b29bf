// KeyFilter: tells of most keys that are not in a map, without a look into the map, that they are not there.
// A Bloom filter of a fixed size: one cache line a key.
//
//   [KF-1] A key that was added may be there, for ever: the filter does not learn of removals.
// The share of missing keys that it lets through grows with the number of keys: one in a hundred at capacity,
// and more beyond.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::store {

class KeyFilter {
 public:
  static constexpr std::uint64_t bits_per_key = 12;

  // `keys`: the capacity. Takes its memory with the first key.
  KeyFilter(std::uint64_t keys, std::uint64_t seed);

  void add(std::string_view key);
  bool may_have(std::string_view key) const noexcept;
  // So many keys were added that the filter is of almost no use any more.
  bool full() const noexcept { return added_ > 2 * keys_; }
  std::uint64_t bytes() const noexcept { return lines_.size() * sizeof(Line); }

 private:
  struct alignas(64) Line {  // one of the processor's
    std::array<std::uint64_t, 8> words{};
    bool lacks(const Line& bits) const noexcept {
      std::uint64_t missing = 0;
      for (std::size_t i = 0; i < words.size(); ++i) missing |= bits.words[i] & ~words[i];
      return missing != 0;
    }
  };
  struct Marks {
    std::uint64_t line;
    Line bits;
  };
  Marks marks_of(std::string_view key) const noexcept;

  std::uint64_t keys_, added_ = 0;  // those that were not taken for known
  std::uint64_t line_count_;
  std::uint64_t seed_;
  std::vector<Line> lines_;
};

}  // namespace cairn::store
