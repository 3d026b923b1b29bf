// Host: a service as a real process: configuration in, shards up, signals obeyed, exit code out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/server_keys.h"
#include "serve/node.h"

namespace cairn::serve {

struct HostOptions {
  // Collects the sources anew: at start and at every SIGHUP.
  // The error is text for people and names the file.
  std::function<std::expected<config::Sources, std::string>()> sources;
  BuildInfo build;
  std::size_t workers = 1;  // per shard
  // Called once everything is up, with the address served.
  std::function<void(const std::string& address)> ready;
  // Text for people: problems of the configuration, why it cannot start.
  std::function<void(const std::string& line)> complain;
};

enum ExitCode : int { exit_ok = 0, exit_failed = 1, exit_aborted = 10, exit_bad_config = 78 };

// Makes the service for a configuration that was accepted.
using MakeService = std::function<std::unique_ptr<Service>(const config::Snapshot&)>;

// Serves until a signal ends it. The exit code: 0 drained, 10 something was aborted, 78 bad configuration,
// 1 could not start.
int run_host(const config::Schema& schema, const config::ServerKeys& keys, const MakeService& make,
             const HostOptions& options);

}  // namespace cairn::serve
