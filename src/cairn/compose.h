// Compose: the services of one process, put together.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "cairn/command.h"
#include "config/load.h"

namespace cairn::cli {

// Serve until a signal, and return the exit code. serve_up: every service, each configured by its own table.
// serve_alone: one service.
int serve_up(const Invocation& invocation);
int serve_alone(const Invocation& invocation, std::string_view service);

// The configuration that `up` would run with; `file` replaces --config. Exactly one of the functions is
// called.
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
