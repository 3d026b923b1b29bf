// Problem: one thing wrong with a configuration, as one line: where it is, the key, its value and the reason.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace cairn::config {

struct Problem {
  std::string where;  // like Origin::text
  std::string key;    // empty: the file could not be read as TOML at all
  std::string value;
  std::string rule;

  friend bool operator==(const Problem&, const Problem&) = default;
};

// `cairn.toml:3:12: server.max_conns = 0: must be between 1 and 1048576`
std::string format_problem(const Problem& problem);
// One line each.
std::string format_problems(std::span<const Problem> problems);

}  // namespace cairn::config
