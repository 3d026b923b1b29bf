#include "services/index/declarations.h"

#include <algorithm>

#include "base/endpoint.h"
#include "config/snapshot.h"
#include "io/dht.h"
#include "io/ram_disk.h"
#include "serve/shared_rows.h"
#include "serve/sizes.h"
#include "services/index/finder.h"
#include "services/index/provider_table.h"
#include "store/locks.h"

namespace cairn::index {
namespace {

constexpr serve::SharedRows shared{.workers = "64 per shard", .work = work_capacity};
constexpr TaskDeclaration own_tasks[] = {
    {"committer", "committer", "one", Criticality::essential,
     "the only writer of the log of names and of the map behind it: decides, signs, group commit",
     "supervisor"},
    {"tender", "tender", "one", Criticality::degrading,
     "looks for room on a full disk, remembers a damaged map for the next start", "supervisor"},
    {"keeper", "keeper", "one", Criticality::degrading,
     "the only writer of the table of providers: takes announcements in, drops what is over", "supervisor"},
    {"cache-janitor", "janitor", "one", Criticality::degrading,
     "the only writer of the cache: keeps what was learned, removes what is over once a second",
     "supervisor"},
    {"breaker-janitor", "janitor", "one", Criticality::degrading,
     "the only writer of the table of breakers: counts outcomes, looks at cooldowns once a second",
     "supervisor"},
    {"flights", "dispatcher", "one per shard", Criticality::essential,
     "begins one lookup for all that ask the same; the questions are dealt out to the shards", "supervisor"},
    {"publisher", "publisher", "one", Criticality::degrading,
     "puts what was announced into the DHT and keeps it there, at a pace", "supervisor"},
    {"peer-keeper", "keeper", "one", Criticality::optional, "remembers nodes of the DHT for the next start",
     "supervisor"},
    {"follower", "follower", "one", Criticality::degrading,
     "reads the registry's newest version: who may change which names, and which nodes there are",
     "supervisor"},
    {"gates", "observer", "one", Criticality::degrading,
     "opens and closes readiness as the ledger says, shows how full queues are", "supervisor"},
};
constexpr auto tasks = serve::join(serve::shared_tasks(shared), own_tasks);

constexpr QueueDeclaration own_queues[] = {
    {"changes",
     QueueKind::mpsc,
     changes_capacity,
     {"worker"},
     {"committer"},
     OverflowPolicy::refuse,
     "queue_depth",
     changes_full},
    {"announced",
     QueueKind::mpsc,
     announced_capacity,
     {"worker"},
     {"keeper"},
     OverflowPolicy::refuse,
     "queue_depth",
     announced_full},
    {"learned",
     QueueKind::mpsc,
     Cache::learned_capacity,
     {"flights"},
     {"cache-janitor"},
     OverflowPolicy::refuse,
     "queue_dropped_total",
     {},
     true},
    {"outcomes",
     QueueKind::mpsc,
     BreakerTable::outcomes_capacity,
     {"flights"},
     {"breaker-janitor"},
     OverflowPolicy::refuse,
     "queue_dropped_total",
     {},
     true},
};
constexpr auto queues = serve::join(serve::shared_queues(shared), own_queues);

constexpr LockDeclaration own_locks[] = {
    store::index_map_lock, store::index_files_lock, store::index_recent_lock,
    io::ram_names_lock,    io::ram_bytes_lock,      members_lock,
    io::dht_lock,          breakers_lock,           cache_lock,
};
constexpr auto locks = serve::join(serve::shared_locks, own_locks);

constexpr WriterDeclaration own_writers[] = {
    {"the log of names", "committer"},
    {"the map behind it", "committer"},
    {"the table of providers", "keeper"},
    {"what the registry says", "follower, under `members`"},
    {"cache_meta", "cache-janitor, under its `cache_meta` stripe"},
    {"breaker_table", "breaker-janitor, under `breaker_table`"},
};
constexpr auto writers = serve::join(serve::shared_writers, own_writers);

config::Check endpoints_check() {
  return {"a list of HOST:PORT", [](const config::Value& value) {
            return std::ranges::all_of(
                std::get<std::vector<std::string>>(value),
                [](const std::string& text) { return parse_endpoint(text).has_value(); });
          }};
}
config::Check rising_durations_check() {
  return {"a list of rising durations, such as 10ms", [](const config::Value& value) {
            Duration before{};
            for (const std::string& text : std::get<std::vector<std::string>>(value)) {
              const auto bound = parse_duration(text);
              if (!bound || *bound <= before) return false;
              before = *bound;
            }
            return true;
          }};
}
config::Check keys_check() {
  return {"a list of keys of 64 hex digits", [](const config::Value& value) {
            crypto::Ed25519PublicKey key{};
            return std::ranges::all_of(std::get<std::vector<std::string>>(value),
                                       [&](const std::string& text) { return parse_hex_to(text, key); });
          }};
}

DhtKeys declare_dht(config::Schema& schema, const Defaults& where) {
  using config::Reload;
  DhtKeys keys;
  keys.mode = schema.add<io::DhtMode>(
      {.name = "dht.mode",
       .default_value = "local",
       .doc = "Which DHT: one within this process; of the local network, whose nodes find each other; one "
              "whose nodes know each other; or one of public addresses.",
       .reload = Reload::restart,
       .choices = {"local", "lan", "private", "public"}});
  keys.bind =
      schema.add<std::string>({.name = "dht.bind",
                               .default_value = "",
                               .doc = "The address where the DHT's node listens; empty: server.bind's.",
                               .reload = Reload::restart});
  keys.port = schema.add<std::int64_t>({.name = "dht.port",
                                        .default_value = std::to_string(where.dht_port),
                                        .doc = "Its UDP port; 0 asks the system for one.",
                                        .reload = Reload::restart,
                                        .min = "0",
                                        .max = "65535"});
  keys.bootstrap = schema.add<std::vector<std::string>>({.name = "dht.bootstrap",
                                                         .default_value = "",
                                                         .doc = "Nodes of the DHT, HOST:PORT, to begin with.",
                                                         .reload = Reload::restart,
                                                         .check = endpoints_check()});
  keys.allow_loopback =
      schema.add<bool>({.name = "dht.allow_loopback",
                        .default_value = "false",
                        .doc = "Whether providers on loopback addresses are named to others; for trying out.",
                        .reload = Reload::restart});
  return keys;
}

LookupKeys declare_lookups(config::Schema& schema) {
  using config::Unit;
  const auto number = [&](const char* name, const char* value, const char* most, const char* doc) {
    return schema.add<std::int64_t>({.name = std::string("dht.") + name,
                                     .default_value = value,
                                     .doc = doc,
                                     .min = "1",
                                     .max = most,
                                     .other_names = {{name}}});
  };
  LookupKeys keys;
  keys.alpha = number("alpha", "3", "32", "How many targets a lookup asks at once.");
  keys.beta = number("beta", "2", "32", "How many others it asks when those have not settled it in time.");
  keys.max_retries =
      schema.add<std::int64_t>({.name = "dht.max_retries",
                                .default_value = "3",
                                .doc = "How often a target is asked again after a fault that may pass.",
                                .min = "0",
                                .max = "10"});
  keys.hedge =
      schema.add<Duration>({.name = "dht.hedge",
                            .default_value = "150ms",
                            .doc = "When the others are asked.",
                            .min = "1ms",
                            .max = "30s",
                            .other_names = {{"dht.hedge_ms", Unit::millis}, {"hedge_ms", Unit::millis}}});
  keys.deadline = schema.add<Duration>(
      {.name = "dht.deadline",
       .default_value = "1200ms",
       .doc = "How long a lookup may take in all; then 504.",
       .reload = config::Reload::restart,
       .min = "10ms",
       .max = "30s",
       .other_names = {{"dht.deadline_ms", Unit::millis}, {"deadline_ms", Unit::millis}}});
  return keys;
}

CacheKeys declare_cache(config::Schema& schema) {
  using config::Unit;
  CacheKeys keys;
  keys.entries = schema.add<std::int64_t>({.name = "cache.entries",
                                           .default_value = "150000",
                                           .doc = "How many answers of others are kept.",
                                           .min = "1",
                                           .max = "100000000"});
  keys.ttl = schema.add<Duration>({.name = "cache.ttl",
                                   .default_value = "15s",
                                   .doc = "How long an answer is kept.",
                                   .min = "1ms",
                                   .max = "1h",
                                   .other_names = {{"cache.ttl_ms", Unit::millis}}});
  keys.neg_ttl = schema.add<Duration>({.name = "cache.neg_ttl",
                                       .default_value = "3s",
                                       .doc = "How long it is kept that nobody has something.",
                                       .min = "1ms",
                                       .max = "1h",
                                       .other_names = {{"cache.neg_ttl_ms", Unit::millis}}});
  keys.purge_interval =
      schema.add<Duration>({.name = "amnesia.purge_interval",
                            .default_value = "30s",
                            .doc = "With amnesia: how often everything that was learned is forgotten.",
                            .min = "1s",
                            .max = "1d",
                            .other_names = {{"amnesia.purge_interval_ms", Unit::millis}}});
  return keys;
}

RankKeys declare_ranking(config::Schema& schema) {
  using config::Unit;
  const auto list = [&](const char* name, const char* doc) {
    return schema.add<std::vector<std::string>>({.name = name, .default_value = "", .doc = doc});
  };
  RankKeys keys;
  keys.region_bias = schema.add<double>({.name = "rank.region_bias",
                                         .default_value = "0.6",
                                         .doc = "How much of a provider's score its region decides.",
                                         .min = "0",
                                         .max = "1"});
  keys.freshness_half_life =
      schema.add<Duration>({.name = "rank.freshness_half_life",
                            .default_value = "600s",
                            .doc = "After so long without a word a provider's freshness has halved.",
                            .min = "1s",
                            .max = "30d",
                            .other_names = {{"rank.freshness_half_life_s", Unit::seconds}}});
  keys.latency_buckets =
      schema.add<std::vector<std::string>>({.name = "rank.latency_buckets",
                                            .default_value = "10ms,30ms,100ms,300ms",
                                            .doc = "Bounds between the classes of latency, rising.",
                                            .check = rising_durations_check()});
  keys.allowed_regions = list("rank.allowed_regions", "Only providers of these regions; empty: of all.");
  keys.provider_denylist =
      schema.add<std::vector<std::string>>({.name = "rank.provider_denylist",
                                            .default_value = "",
                                            .doc = "Node keys that are never named, in hex.",
                                            .check = keys_check()});
  return keys;
}

BreakerKeys declare_breakers(config::Schema& schema) {
  using config::Unit;
  BreakerKeys keys;
  keys.error_window = schema.add<Duration>(
      {.name = "breaker.error_window",
       .default_value = "30s",
       .doc = "The time over which a target's failures are counted.",
       .min = "1s",
       .max = "1h",
       .other_names = {{"breaker.error_window_s", Unit::seconds}, {"error_window_s", Unit::seconds}}});
  keys.trip_threshold = schema.add<double>({.name = "breaker.trip_threshold",
                                            .default_value = "0.5",
                                            .doc = "The part of them above which the breaker opens.",
                                            .min = "0.01",
                                            .max = "1",
                                            .other_names = {{"trip_threshold"}}});
  keys.cooldown = schema.add<Duration>(
      {.name = "breaker.cooldown",
       .default_value = "10s",
       .doc = "How long an open breaker lets nothing through.",
       .min = "1s",
       .max = "1h",
       .other_names = {{"breaker.cooldown_s", Unit::seconds}, {"cooldown_s", Unit::seconds}}});
  keys.half_open_probes = schema.add<std::int64_t>({.name = "breaker.half_open_probes",
                                                    .default_value = "3",
                                                    .doc = "Requests that may try a target after that.",
                                                    .min = "1",
                                                    .max = "1000",
                                                    .other_names = {{"half_open_probes"}}});
  return keys;
}

}  // namespace

const ServiceDeclaration declaration{
    .name = "index",
    .purpose = "Finds what a name or an address stands for, and who has it",
    .owner = "cairn maintainers",
    .last_reviewed = "2026-11-19",
    .drain = Duration::seconds(3),
    .tasks = tasks,
    .queues = queues,
    .locks = locks,
    .lanes = lane_declarations,
    .writers = writers,
    .calls = {"registry"},
};

Keys declare_keys(config::Schema& schema, const Defaults& where) {
  using config::Reload;
  Keys keys;
  config::ServerDefaults defaults;
  defaults.bind = where.bind;
  defaults.uds_path = where.uds_path;
  defaults.alone = where.alone;
  defaults.queues = serve::queue_sizes(declaration);
  defaults.pools = serve::pool_sizes();
  defaults.amnesia = true;
  keys.server = config::declare_server_keys(schema, defaults);
  keys.db_path = schema.add<std::string>(
      {.name = "db.path",
       .default_value = "",
       .doc = "Directory of names and manifests; empty: `index` in the data directory.",
       .reload = Reload::restart});
  keys.dht = declare_dht(schema, where);
  keys.lookup = declare_lookups(schema);
  keys.cache = declare_cache(schema);
  keys.rank = declare_ranking(schema);
  keys.breaker = declare_breakers(schema);
  keys.announce_most = schema.add<std::int64_t>(
      {.name = "announce.max_keys",
       .default_value = "10000",
       .doc = "How many of the addresses that were announced here are kept in the DHT.",
       .reload = Reload::restart,
       .min = "0",
       .max = "1000000"});
  keys.registry = config::declare_peer_key(schema, "registry", where.registry);
  schema.add_memory("18 MiB for bodies on their way in",
                    [](const config::Snapshot&) { return ingest_bytes + ingest_bytes / 8; });
  return keys;
}

}  // namespace cairn::index
