// Prints the effective configuration, the help and the docs from the declarations.
#pragma once

#include <string>
#include <string_view>

#include "config/snapshot.h"

namespace cairn::config {

// `config show`: a line per key with its origin. Secrets print as [redacted]; keys that are not built are
// left out.
std::string show_text(const Snapshot& snapshot, std::string_view prefix = {});
// JSON Lines: {"key","value","origin","reload"}.
std::string show_json(const Snapshot& snapshot, std::string_view prefix = {});
// As a file that loads to the same values. Secrets are written in clear: it is for files, not for eyes.
std::string write_toml(const Snapshot& snapshot, std::string_view prefix = {});

// The keys' part of --help.
std::string help_text(const Schema& schema, std::string_view prefix = {});
// docs/config/<service>.md
std::string docs_markdown(const Schema& schema, std::string_view service);

}  // namespace cairn::config
