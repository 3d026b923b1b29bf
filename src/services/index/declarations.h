// Everything the index declares but its routes (routes.cpp): settings, tasks, queues, locks, writers, gates.
// Each once.
#pragma once

#include "config/schema.h"
#include "config/server_keys.h"
#include "io/dht.h"
#include "runtime/topology.h"
#include "serve/service.h"
#include "services/index/ledger.h"

namespace cairn::index {

inline constexpr std::int64_t work_capacity = 512;
inline constexpr std::size_t workers_per_shard = 64;
// Bytes of request bodies that may be arriving at once, over all shards.
inline constexpr std::uint64_t ingest_bytes = 16u << 20;

struct LookupKeys {
  config::Key<std::int64_t> alpha, beta, max_retries;
  config::Key<Duration> hedge, deadline;
};
struct CacheKeys {
  config::Key<std::int64_t> entries;
  config::Key<Duration> ttl, neg_ttl, purge_interval;
};
struct RankKeys {
  config::Key<double> region_bias;
  config::Key<Duration> freshness_half_life;
  config::Key<std::vector<std::string>> latency_buckets, allowed_regions, provider_denylist;
};
struct BreakerKeys {
  config::Key<Duration> error_window, cooldown;
  config::Key<double> trip_threshold;
  config::Key<std::int64_t> half_open_probes;
};

struct DhtKeys {
  config::Key<io::DhtMode> mode;
  config::Key<std::string> bind;
  config::Key<std::int64_t> port;
  config::Key<std::vector<std::string>> bootstrap;
  config::Key<bool> allow_loopback;
};

struct Keys {
  config::ServerKeys server;
  config::Key<std::string> db_path;
  DhtKeys dht;
  LookupKeys lookup;
  CacheKeys cache;
  RankKeys rank;
  BreakerKeys breaker;
  config::Key<std::int64_t> announce_most;
  config::Key<std::string> registry;
};
// Where the service listens when the configuration does not say.
struct Defaults {
  bool alone = true;  // false: among other services of one process
  std::string bind = "127.0.0.1:7420";
  std::string uds_path = "";
  std::string registry = "";
  std::int64_t dht_port = 7420;
};
Keys declare_keys(config::Schema& schema, const Defaults& where = {});

inline constexpr serve::GateDeclaration gates[] = {
    {"store", true},        // the log was read, and the map behind it answers
    {"writes", false},      // changes of names become durable
    {"dht", false, false},  // the DHT can be asked; names of this node need nobody
};

extern const ServiceDeclaration declaration;

}  // namespace cairn::index
