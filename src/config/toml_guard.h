// Refuses, before the TOML library sees it, text on which that library (toml++ 3.3) is not safe:
//   - characters beyond ASCII outside texts and comments: its search for blanks runs into code marked
//   unreachable;
//   - keys of very many dots: its tables are built and destroyed recursively;
//   - texts over several lines, and quotes in the middle of a word: they could hide the first from this scan.
// No valid configuration is refused: keys are bare words and values have no line breaks.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace cairn::config {

struct Refusal {
  std::size_t line = 1;
  std::size_t column = 1;
  const char* rule = "";
};

std::optional<Refusal> guard_toml(std::string_view text) noexcept;

}  // namespace cairn::config
