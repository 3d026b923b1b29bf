// Reads TOML text into flat assignments. The only place that knows the TOML library.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "config/problem.h"
#include "config/value.h"

namespace cairn::config {

struct Assignment {
  std::string path;  // components joined by dots; one that is not a bare TOML key keeps its quotes
  Raw raw;
  std::string where;         // file:line:column of the value
  bool empty_table = false;  // sets no value, but may be misspelt
};

// In order of position. A file larger than 256 KiB or nested absurdly is refused unread.
std::expected<std::vector<Assignment>, Problem> read_toml(std::string_view name, std::string_view text);

}  // namespace cairn::config
