// Loading: flag > environment > file > default. All problems are found, not only the first.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/problem.h"
#include "config/snapshot.h"

namespace cairn::config {

struct File {
  std::string name;  // the name that problems print
  std::string text;
};

// `--set key=value`, or a flag of its own that the caller resolved to its key.
struct Setting {
  std::string key;
  std::string value;
  std::string flag = "--set";
};

struct Sources {
  std::optional<File> file = {};
  // The whole environment; only names that start with `CAIRN_` are looked at.
  std::vector<std::pair<std::string, std::string>> environment = {};
  // Names that start with `CAIRN_` and are no keys (`CAIRN_URL`).
  std::vector<std::string> other_variables = {};
  // Later ones win.
  std::vector<Setting> settings = {};
};

// A schema and its TOML table: empty for a service alone, the service's name in `cairn up`.
struct Section {
  std::string prefix;
  const Schema* schema;
};

using Problems = std::vector<Problem>;

// One snapshot per section, or every problem there is. Two spellings of one key in one source are a problem;
// a value that a stronger source overrides is checked all the same.
std::expected<std::vector<SnapshotPtr>, Problems> load(std::span<const Section> sections,
                                                       const Sources& sources, std::uint64_t version = 1);
std::expected<SnapshotPtr, Problems> load(const Schema& schema, const Sources& sources,
                                          std::uint64_t version = 1);

// `KEY=VALUE` of --set; nothing if there is no `=` or no key.
std::optional<Setting> parse_setting(std::string_view text);

// server.max_conns → CAIRN_SERVER__MAX_CONNS
std::string environment_name(std::string_view key);

// The rules that accepted values break: limits that need a permission, and rules between keys.
Problems check_danger(const Snapshot& snapshot, std::string_view prefix = {});
Problems check_rules(const Snapshot& snapshot, std::string_view prefix = {});

}  // namespace cairn::config
