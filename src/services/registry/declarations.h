// Everything the registry declares but its routes (routes.cpp): settings, tasks, queues, locks, writers,
// gates. Each once.
#pragma once

#include "config/schema.h"
#include "config/server_keys.h"
#include "runtime/topology.h"
#include "serve/service.h"
#include "services/registry/registry.h"

namespace cairn::registry {

inline constexpr std::int64_t work_capacity = 512;
inline constexpr std::size_t workers_per_shard = 128;
// Bytes of request bodies that may be arriving at once, over all shards.
inline constexpr std::uint64_t ingest_bytes = 32u << 20;

enum class StorageKind : std::uint8_t { embedded, ram };

struct Keys {
  config::ServerKeys server;
  config::Key<StorageKind> kind;
  config::Key<std::string> data_dir;
  config::Key<bool> fsync;
  config::Key<Duration> checkpoint_interval;
  config::Key<Bytes> segment_size;
  config::Key<Duration> slow_sync;
  config::Key<Retention::Policy> retention_policy;
  config::Key<Duration> retention_age;
  config::Key<std::int64_t> retention_count;
  config::Key<Bytes> retention_bytes;
  config::Key<std::string> trust_roots_path;
  config::Key<std::string> trust_roots_hash;
  config::Key<std::int64_t> channel_bound;
  config::Key<Duration> proposals_ttl;
  config::Key<std::int64_t> proposals_max;
};
// Where the service listens when the configuration does not say.
struct Defaults {
  bool alone = true;  // false: among other services of one process
  std::string bind = "127.0.0.1:7430";
  std::string uds_path = "";
};
Keys declare_keys(config::Schema& schema, const Defaults& where = {});

inline constexpr serve::GateDeclaration gates[] = {
    {"store", true},        // the log was read, HEAD fits it, and the disk can be read
    {"writes", false},      // changes become durable in time, and no version is damaged
    {"bus", false, false},  // the publisher keeps up with the commits; no task here waits for it
};

extern const ServiceDeclaration declaration;

}  // namespace cairn::registry
