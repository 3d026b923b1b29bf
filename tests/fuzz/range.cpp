// Range against a reading of RFC 9110 section 14 by sets of single bytes, on objects small enough for it.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/grammar.h"
#include "fuzz/splits.h"
#include "http/range.h"

namespace cairn {
namespace {

using http::RangeSet;

struct Oracle {
  RangeSet::Kind kind = RangeSet::Kind::whole;
  std::vector<std::vector<bool>> ranges;  // the bytes of each
};

// No number here needs to be larger than any object: more digits mean "beyond".
std::optional<std::uint64_t> number(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  std::string digits = text;
  while (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  return digits.size() > 18 ? 1'000'000'000'000'000'000u : std::stoull(digits);
}

// -1, 0, 1 by value, for numbers of any length.
int order(std::string a, std::string b) {
  while (a.size() > 1 && a[0] == '0') a.erase(0, 1);
  while (b.size() > 1 && b[0] == '0') b.erase(0, 1);
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

Oracle read(std::string_view value, std::size_t size) {
  if (value.size() < 6 || grammar::to_lower(value.substr(0, 6)) != "bytes=") return {};
  Oracle oracle;
  std::size_t asked = 0;
  bool suffix_of_nothing = false;
  for (const std::string& element : grammar::split_list(value.substr(6))) {
    if (element.empty()) continue;
    ++asked;
    const std::size_t dash = element.find('-');
    if (dash == std::string::npos) return {};
    const std::string before = element.substr(0, dash);
    const std::string after = element.substr(dash + 1);
    std::vector<bool> bytes(size, false);
    if (before.empty()) {
      const auto last_n = number(after);
      if (!last_n) return {};
      for (std::size_t i = 0; i < size; ++i) bytes[i] = size - i <= *last_n;
      if (size == 0 && *last_n != 0) suffix_of_nothing = true;
    } else {
      const auto first = number(before);
      if (!first || (!after.empty() && !number(after))) return {};
      if (!after.empty() && order(before, after) > 0) return {};
      for (std::size_t i = 0; i < size; ++i) bytes[i] = i >= *first && (after.empty() || i <= *number(after));
    }
    if (std::count(bytes.begin(), bytes.end(), true) != 0) oracle.ranges.push_back(bytes);
  }
  std::size_t overlaps = 0;
  for (std::size_t a = 0; a < oracle.ranges.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      for (std::size_t i = 0; i < size; ++i)
        if (oracle.ranges[a][i] && oracle.ranges[b][i]) {
          ++overlaps;
          break;
        }
  if (asked == 0 || asked > 8 || suffix_of_nothing || overlaps > 2) return {};
  oracle.kind = oracle.ranges.empty() ? RangeSet::Kind::unsatisfiable : RangeSet::Kind::ranges;
  return oracle;
}

void check(std::string_view value, std::size_t size) {
  const fuzz::Exact input(value);
  const RangeSet set = http::parse_range(input.view(), size);
  const Oracle oracle = read(value, size);
  fuzz::require(set.kind == oracle.kind, "kind");
  if (set.kind != RangeSet::Kind::ranges) return;
  fuzz::require(set.count == oracle.ranges.size(), "count");
  for (std::size_t r = 0; r < set.count; ++r) {
    const http::ByteRange range = set.at[r];
    fuzz::require(range.first <= range.last && range.last < size, "bounds");
    for (std::size_t i = 0; i < size; ++i)
      fuzz::require(oracle.ranges[r][i] == (i >= range.first && i <= range.last), "bytes");
  }
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  cairn::check(rest, data[0]);
  cairn::check("bytes=" + rest, data[0]);
  // The bytes as a list of small ranges: nearly always grammatical.
  std::string list = "bytes=";
  for (std::size_t i = 1; i + 1 < size && i < 24; i += 2) {
    if ((data[i] & 15) != 0) list += std::to_string(data[i] / 2);
    list += '-';
    if ((data[i + 1] & 15) != 0) list += std::to_string(data[i + 1]);
    list += ',';
  }
  cairn::check(list, data[0]);
  return 0;
}
