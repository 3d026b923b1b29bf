// Where a service's configuration comes from on this command line: --config, the environment, --set.
#pragma once

#include <expected>
#include <optional>
#include <string>

#include "cairn/command.h"
#include "config/load.h"

namespace cairn::cli {

// `file`: read if given. The error is text for people.
std::expected<config::Sources, std::string> read_sources(const Invocation& invocation,
                                                         std::optional<std::string> file);

}  // namespace cairn::cli
