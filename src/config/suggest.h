// "Did you mean …?" for a misspelt word.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn::config {

// Insertions, deletions, replacements and swaps of neighbours that turn one into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The nearest known word (the first of equals), if it is near enough to be meant.
std::optional<std::string_view> suggest(std::string_view word, std::span<const std::string_view> known);

}  // namespace cairn::config
