// Everything storage declares but its routes (routes.cpp): settings, tasks, queues, locks, writers, gates.
// Each once.
#pragma once

#include "config/schema.h"
#include "config/server_keys.h"
#include "runtime/topology.h"
#include "serve/service.h"

namespace cairn::storage {

inline constexpr std::int64_t work_capacity = 512;
inline constexpr std::size_t workers_per_shard = 128;
// Bytes of request bodies that may be arriving at once, over all shards.
inline constexpr std::uint64_t ingest_bytes = 32u << 20;

struct Keys {
  config::ServerKeys server;
  config::Key<std::vector<std::string>> data_dirs;
  config::Key<Bytes> segment_size;
  config::Key<Bytes> cache_bytes;
  config::Key<bool> fsync;
  config::Key<Bytes> chunk_size;
  config::Key<Rate> scrub_rate;
  config::Key<Duration> scrub_interval;
  config::Key<Duration> uploads_ttl;
  config::Key<std::string> index;
  config::Key<bool> announce;
  config::Key<std::vector<std::string>> announce_endpoints;
  config::Key<std::string> announce_token_file;
};
// Where the service listens when the configuration does not say.
struct Defaults {
  bool alone = true;  // false: among other services of one process
  std::string bind = "127.0.0.1:7410";
  std::string uds_path = "";
};
Keys declare_keys(config::Schema& schema, const Defaults& where = {});

inline constexpr serve::GateDeclaration gates[] = {
    {"store", true},          // the log was read and the index fits it
    {"writes", false},        // some data directory takes writes
    {"whole", false, false},  // nothing that was stored is known to be lost
    {"index", false, false},  // every data directory's index answers for all of its keys
};

extern const ServiceDeclaration declaration;

}  // namespace cairn::storage
