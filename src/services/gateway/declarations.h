// Everything the gateway declares but its routes (routes.cpp): settings, tasks, queues, locks, writers. Each
// once.
#pragma once

#include <optional>

#include "config/schema.h"
#include "config/server_keys.h"
#include "runtime/topology.h"
#include "serve/service.h"
#include "services/gateway/options.h"

namespace cairn::gateway {

inline constexpr std::int64_t work_capacity = 512;
inline constexpr std::int64_t sched_capacity = 512, ticks_capacity = 64;
// What a shard of another service would have; the gateway's turnstile has its own number.
inline constexpr std::size_t workers_per_shard = 16;

struct BreakerKeys {
  config::Key<Duration> window;
  config::Key<double> error_ratio;
  config::Key<std::int64_t> min_requests, consecutive;
  config::Key<Duration> cooldown;
  config::Key<std::int64_t> half_open_probes;
};

struct Keys {
  config::ServerKeys server;
  BreakerKeys breaker;
  FairnessKeys fairness;
  config::Key<bool> verify;
  config::Key<std::string> storage, index, registry;       // where the services are that it forwards to
  std::optional<config::Key<std::string>> root_keys = {};  // where it is alone
};
// Where the service listens, and where it forwards to, when the configuration does not say.
struct Defaults {
  bool alone = true;  // false: among the services that it forwards to, in one process
  std::string bind = "127.0.0.1:7400";
  std::string uds_path = "";
  std::string storage = "127.0.0.1:7410";
  std::string index = "127.0.0.1:7420";
  std::string registry = "127.0.0.1:7430";
};
Keys declare_keys(config::Schema& schema, const Defaults& where = {});

inline constexpr serve::GateDeclaration gates[] = {
    {"slots", true},             // some worker lends slots
    {"workers", false, false},   // all of them do
    {"accepts-changes", false},  // what the pressure sheds
    {"accepts-expensive-reads", false, false},
    {"accepts-requests", true},
};

extern const ServiceDeclaration declaration;

}  // namespace cairn::gateway
