// Compose: the services of one process, put together.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "cairn/command.h"
#include "config/load.h"

namespace cairn::cli {

// Serves until a signal ends it. `up`: every service, each in its table; else one alone. The exit code.
int serve_up(const Invocation& invocation);
int serve_alone(const Invocation& invocation, std::string_view service);

// The configuration that `up` would run with; `file` instead of --config. Exactly one of these is called.
struct UpConfiguration {
  struct Part {
    std::string table;  // empty: the process's own keys
    config::SnapshotPtr snapshot;
  };
  std::function<int(std::span<const Part>)> accepted;
  std::function<int(const config::Problems&)> refused;
  std::function<int(const std::string& why)> unreadable;
};
int with_up_configuration(const Invocation& invocation, std::optional<std::string> file,
                          const UpConfiguration& use);

}  // namespace cairn::cli
