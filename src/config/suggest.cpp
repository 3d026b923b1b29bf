#include "config/suggest.h"

#include <algorithm>
#include <vector>

namespace cairn::config {
namespace {

// Longer than any key. A bound is needed because the distance takes quadratic time and the word may have any
// length.
constexpr std::size_t longest_word = 128;

std::string_view last_component(std::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: two back (for swaps), previous, current.
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::optional<std::string_view> suggest(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > longest_word) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 4) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  if (best) return best;
  // The right key in the wrong table: suggested only if a single key matches.
  for (const std::string_view candidate : known) {
    if (last_component(candidate) != last_component(word)) continue;
    if (best) return std::nullopt;
    best = candidate;
  }
  return best;
}

}  // namespace cairn::config
