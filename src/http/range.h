// Range requests (RFC 9110 section 14), bytes only.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace cairn::http {

struct ByteRange {
  std::uint64_t first = 0, last = 0;  // inclusive, last < size of the object
  std::uint64_t size() const noexcept { return last - first + 1; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct RangeSet {
  enum class Kind : std::uint8_t { whole, ranges, unsatisfiable };
  static constexpr std::size_t capacity = 8;

  Kind kind = Kind::whole;
  bool from_end = false;  // one of them is the last bytes of the object: where it begins depends on the size
  std::uint8_t count = 0;
  std::array<ByteRange, capacity> at;

  std::span<const ByteRange> ranges() const noexcept { return {at.data(), count}; }
};

// What a Range field asks of an object of `size` bytes.
//   whole          another unit, not the grammar, more than 8 ranges, more than two overlapping pairs,
//                  or a suffix of an empty object: answered as if there were no Range
//   unsatisfiable  grammatical, but no range touches the object: 416 with `bytes */size`
//   ranges         those that touch it, cut to its end, in the order asked
RangeSet parse_range(std::string_view value, std::uint64_t size) noexcept;

// `bytes 0-9/100` and `bytes */100`, written to `out` (at least content_range_size_max).
inline constexpr std::size_t content_range_size_max = 70;
std::string_view format_content_range(ByteRange range, std::uint64_t size, std::span<char> out) noexcept;
std::string_view format_unsatisfied_range(std::uint64_t size, std::span<char> out) noexcept;

}  // namespace cairn::http
