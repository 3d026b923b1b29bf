#include "http/range.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "http/field_list.h"
#include "http/fields.h"
#include "http/scan.h"

namespace cairn::http {
namespace {

constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// 1*DIGIT. A number that does not fit is read as the largest position, not as an error.
std::optional<std::uint64_t> parse_position(std::string_view text) noexcept {
  if (text.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (char c : text) {
    if (!is_digit(c)) return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    value = value > (huge - digit) / 10 ? huge : value * 10 + digit;
  }
  return value;
}

// Whether `a` is the larger number, both 1*DIGIT: exact also where parse_position is not.
bool is_larger(std::string_view a, std::string_view b) noexcept {
  while (a.size() > 1 && a.front() == '0') a.remove_prefix(1);
  while (b.size() > 1 && b.front() == '0') b.remove_prefix(1);
  return a.size() != b.size() ? a.size() > b.size() : a > b;
}

enum class Spec : std::uint8_t { malformed, outside, empty_suffix, inside };

// One element of the list against an object of `size` bytes.
Spec parse_spec(std::string_view text, std::uint64_t size, ByteRange& range) noexcept {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return Spec::malformed;
  const std::string_view before = text.substr(0, dash);
  const std::string_view after = text.substr(dash + 1);
  if (before.empty()) {
    const auto suffix = parse_position(after);
    if (!suffix) return Spec::malformed;
    if (*suffix == 0) return Spec::outside;
    if (size == 0) return Spec::empty_suffix;
    range = {size - std::min(*suffix, size), size - 1};
    return Spec::inside;
  }
  const auto first = parse_position(before);
  const auto last = after.empty() ? std::optional(huge) : parse_position(after);
  if (!first || !last || (!after.empty() && is_larger(before, after))) return Spec::malformed;
  if (*first >= size) return Spec::outside;
  range = {*first, std::min(*last, size - 1)};
  return Spec::inside;
}

std::size_t overlapping_pairs(std::span<const ByteRange> ranges) noexcept {
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (std::size_t j = i + 1; j < ranges.size(); ++j)
      pairs += ranges[i].first <= ranges[j].last && ranges[j].first <= ranges[i].last;
  return pairs;
}

char* put(char* at, std::string_view text) noexcept { return std::copy(text.begin(), text.end(), at); }
char* put(char* at, std::uint64_t number) noexcept { return at + format_decimal_to(number, at); }

}  // namespace

RangeSet parse_range(std::string_view value, std::uint64_t size) noexcept {
  constexpr std::size_t overlaps_max = 2;
  const std::size_t equals = value.find('=');
  if (equals == std::string_view::npos || !equals_ignoring_case(value.substr(0, equals), "bytes")) return {};

  RangeSet set;
  std::size_t asked = 0;
  bool whole = false;
  // The whole list is read even when the answer is known: a fault behind it makes the field void.
  for (std::string_view list = value.substr(equals + 1);;) {
    const std::size_t comma = list.find(',');
    if (const std::string_view text = trim(list.substr(0, comma)); !text.empty()) {
      ByteRange range;
      const Spec spec = parse_spec(text, size, range);
      if (spec == Spec::malformed) return {};
      if (++asked > RangeSet::capacity || spec == Spec::empty_suffix) whole = true;
      if (spec == Spec::inside && !whole) set.at[set.count++] = range;
      set.from_end = set.from_end || text.starts_with('-');
    }
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  if (asked == 0 || whole || overlapping_pairs(set.ranges()) > overlaps_max) return {};
  set.kind = set.count == 0 ? RangeSet::Kind::unsatisfiable : RangeSet::Kind::ranges;
  return set;
}

std::string_view format_content_range(ByteRange range, std::uint64_t size, std::span<char> out) noexcept {
  CHECK(out.size() >= content_range_size_max);
  char* at = put(out.data(), "bytes ");
  at = put(put(at, range.first), "-");
  at = put(put(at, range.last), "/");
  return {out.data(), static_cast<std::size_t>(put(at, size) - out.data())};
}

std::string_view format_unsatisfied_range(std::uint64_t size, std::span<char> out) noexcept {
  CHECK(out.size() >= content_range_size_max);
  return {out.data(), static_cast<std::size_t>(put(put(out.data(), "bytes */"), size) - out.data())};
}

}  // namespace cairn::http
