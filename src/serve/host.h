// Host: services as a real process: configuration in, shards up, signals obeyed, exit code out.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/load.h"
#include "config/server_keys.h"
#include "serve/node.h"
#include "serve/root_keys.h"

namespace cairn::serve {

// Makes the service for a configuration that was accepted; the error is text for people.
using MakeService =
    std::function<std::expected<std::unique_ptr<Service>, std::string>(const config::Snapshot&)>;

struct HostedService {
  std::string prefix;            // its table in the configuration; empty for a service alone
  const config::Schema* schema;  // outlives the host
  config::ServerKeys keys;
  MakeService make;
  std::size_t workers = 1;   // per shard
  bool ready_after = false;  // not ready before HostOptions::afterwards has ended
  bool open_access = false;  // everybody may do what otherwise needs a capability; for demonstrations
  // The addresses of the services that this one calls and that run in other processes, by name: `host:port`,
  // or the path of a Unix socket behind `unix:`; empty: nowhere.
  std::vector<std::pair<std::string, config::Key<std::string>>> peers = {};
  // Names a file of root keys that another process keeps; empty: HostOptions::root_keys tells. The service
  // knows tokens by it, and changes nothing in it.
  std::optional<config::Key<std::string>> root_keys_of_others = {};
};

struct Served {
  std::string_view service;
  std::string address;
  std::string socket = {};  // the path of its Unix socket; empty: none
  bool tls = false;         // is spoken at `address`
};

// When a configuration is read: at start, or again at a SIGHUP.
enum class Reading : std::uint8_t { first, again };

// Reads a configuration's file. At the start any readable file is accepted. A reload accepts only a regular
// file that is not empty: a pipe was read to its end before, and a file that is just being replaced may be
// empty for a moment. Either would put every default in force. The error is text for people and names the
// file.
std::expected<config::File, std::string> read_config_file(const std::string& path, Reading reading);

struct HostOptions {
  // Collects the sources anew: at start and at every SIGHUP. The error is text for people and names the file.
  std::function<std::expected<config::Sources, std::string>(Reading)> sources;
  BuildInfo build;
  // The process's own section, without a table, when several services share the process. A service that runs
  // alone has these keys among its own.
  const config::Schema* process_schema = nullptr;
  config::ProcessKeys process_keys = {};
  // Nothing is there yet: the addresses are tried before anything is made, so that a start that finds one
  // taken leaves nothing behind.
  bool first_start = false;
  // Makes the root keys of capabilities for every service; they outlive the host. Called with the accepted
  // configuration before any service is made. Empty, or null keys: only for services that ask for no
  // capability or are open. `amnesic`: for each service, in order, whether it may leave nothing on disk.
  std::function<std::expected<RootKeys*, std::string>(const std::vector<bool>& amnesic)> root_keys = {};
  // Called after a request has revoked a key and before it is answered, with the keys that are left. Runs in
  // a thread of the pool, and may block.
  std::function<Result<>(const crypto::KeyRing& left)> revoked = {};
  // Told the addresses of the services: once all of them listen, at every change, and a last time with none,
  // before the first listener closes. So these addresses never belong to another process.
  std::function<void(std::span<const Served>)> listening = {};
  // Called once everything has started, in the order of the services.
  std::function<void(std::span<const Served>)> ready;
  // Runs on shard 0 after `ready`, if it is set. It is stopped and waited for when the services have ended.
  // The machine outlives it.
  std::function<Task<>(Call call, io::Machine* machine, std::vector<Served> served)> afterwards = {};
  // For tests of the whole process: the path of a file that a task beside the services obeys. A line `NUMBER
  // SERVICE TASK`, with a number not seen before, makes the tasks of that name end as if by an exception.
  // Only the program that starts the process can set the path. Empty: there is no such file.
  std::string chaos = {};
  // Text for people: problems of the configuration, and why the process cannot start.
  std::function<void(const std::string& line)> complain;
};

enum ExitCode : int { exit_ok = 0, exit_failed = 1, exit_aborted = 10, exit_bad_config = 78 };

// Serves until a signal ends the process; a service starts after those that it depends on. The exit code: 0
// drained, 10 something was aborted, 78 bad configuration, 1 could not start.
int run_host(std::vector<HostedService> services, const HostOptions& options);

}  // namespace cairn::serve
