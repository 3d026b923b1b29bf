// Host: services as a real process: configuration in, shards up, signals obeyed, exit code out.
#pragma once

#include <expected>
#include <functional>
#include <memory>
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
  bool open_access = false;  // what needs a capability is allowed to everybody; for demonstrations
  // Where the services are that it calls and that are not of this process, by name: `host:port`, or the path
  // of a Unix socket behind `unix:`; empty: nowhere.
  std::vector<std::pair<std::string, config::Key<std::string>>> peers = {};
};

struct Served {
  std::string_view service;
  std::string address;
  std::string socket = {};  // the path of its Unix socket; empty: none
};

// When a configuration is read: at start, or again at a SIGHUP.
enum class Reading : std::uint8_t { first, again };

// A configuration's file. Whatever can be read does for a start; a reload takes only a regular file that is
// not empty. A pipe has nothing left to say, and a file that is just being replaced may be empty for a
// moment: taken at their word, both would put every default in force. The error is text for people and names
// the file.
std::expected<config::File, std::string> read_config_file(const std::string& path, Reading reading);

struct HostOptions {
  // Collects the sources anew: at start and at every SIGHUP. The error is text for people and names the file.
  std::function<std::expected<config::Sources, std::string>(Reading)> sources;
  BuildInfo build;
  // Where several services share the process: the section without a table. A service alone has these keys
  // among its own.
  const config::Schema* process_schema = nullptr;
  config::ProcessKeys process_keys = {};
  // The capabilities' root keys, for every service; they outlive the host. Made for the configuration that
  // was accepted, before any service; none: only for services that ask for no capability or are open.
  // `amnesic`: of each service, in order, whether it may leave nothing on disk.
  std::function<std::expected<RootKeys*, std::string>(const std::vector<bool>& amnesic)> root_keys = {};
  // After a request has revoked a key, with the keys that are left and before it is answered; in a pool's
  // thread, may block.
  std::function<Result<>(const crypto::KeyRing& left)> revoked = {};
  // Where the services listen: told once all of them do, at every change, and for the last time, with none,
  // before the first listener closes. What is told here is never somebody else's address.
  std::function<void(std::span<const Served>)> listening = {};
  // Called once everything has started, in the order of the services.
  std::function<void(std::span<const Served>)> ready;
  // Run on shard 0 after that, if there is anything to do; stopped and waited for when the services have
  // ended. The machine outlives it.
  std::function<Task<>(Call call, io::Machine* machine, std::vector<Served> served)> afterwards = {};
  // For tests of the whole process: a file whose reader, a task beside the services, obeys it. A line `NUMBER
  // SERVICE TASK`, with a number not seen before, makes the tasks of that name end as if by an exception.
  // Whoever starts the process says where it is; nobody else can reach it. Empty: there is none.
  std::string chaos = {};
  // Text for people: problems of the configuration, why it cannot start.
  std::function<void(const std::string& line)> complain;
};

enum ExitCode : int { exit_ok = 0, exit_failed = 1, exit_aborted = 10, exit_bad_config = 78 };

// Serves until a signal ends it; each service after those it depends on. The exit code: 0 drained, 10
// something was aborted, 78 bad configuration, 1 could not start.
int run_host(std::vector<HostedService> services, const HostOptions& options);

}  // namespace cairn::serve
