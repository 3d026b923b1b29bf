#include "services/storage/declarations.h"

#include "config/snapshot.h"
#include "io/ram_disk.h"
#include "serve/shared_rows.h"
#include "serve/sizes.h"
#include "services/storage/endpoints.h"
#include "store/change_feed.h"
#include "store/locks.h"
#include "store/object_home.h"

namespace cairn::storage {
namespace {

constexpr serve::SharedRows shared{.work = work_capacity};
constexpr TaskDeclaration own_tasks[] = {
    {"committer", "committer", "one per data directory", Criticality::essential,
     "the only writer of a log and its index: group commit", "supervisor"},
    {"compactor", "compactor", "one per data directory", Criticality::degrading,
     "moves what is alive out of mostly dead segments", "supervisor"},
    {"scrubber", "scrubber", "one per data directory", Criticality::degrading,
     "verifies everything at a pace, quarantines what is bad", "supervisor"},
    {"sweeper", "sweeper", "one per data directory", Criticality::degrading,
     "ends uploads whose time is over", "supervisor"},
    {"indexer", "indexer", "one per data directory", Criticality::degrading,
     "makes a new index from the log when the one in use was found damaged", "supervisor"},
    {"pages", "preparer", "one, unless the cache is small", Criticality::degrading,
     "keeps large pages of the cache ready", "supervisor"},
    {"announcer", "announcer", "one, where there is an index", Criticality::degrading,
     "tells the index what this node has, and what it no longer has", "the supervisor of the first shard"},
    {"gates", "observer", "one", Criticality::degrading, "opens and closes readiness as the stores say",
     "supervisor"},
};
constexpr auto tasks = serve::join(serve::shared_tasks(shared), own_tasks);

constexpr QueueDeclaration own_queues[] = {
    {"changes",
     QueueKind::mpsc,
     store::changes_capacity,
     {"worker", "connection", "compactor", "scrubber", "sweeper", "indexer"},
     {"committer"},
     OverflowPolicy::refuse,
     "queue_depth",
     store::changes_full},
    {"changed",
     QueueKind::mpsc,
     store::changed_capacity,
     {"committer"},
     {"announcer"},
     OverflowPolicy::refuse,
     "queue_depth",
     store::changed_full},
};
constexpr auto queues = serve::join(serve::shared_queues(shared), own_queues);

constexpr LockDeclaration own_locks[] = {
    store::changed_lock,     store::ports_lock,        store::index_in_use_lock, store::cache_stripe_lock,
    store::cache_slots_lock, store::index_map_lock,    store::index_files_lock,  io::ram_names_lock,
    io::ram_bytes_lock,      store::index_recent_lock,
};
constexpr auto locks = serve::join(serve::shared_locks, own_locks);

constexpr WriterDeclaration own_writers[] = {
    {"a data directory's log and index", "its committer"},
    {"changes that an index has not written down", "its committer, under `index-recent`"},
    {"which index is in use", "its committer, under `index-in-use`"},
    {"what this node says that it has", "announcer"},
    {"the cache of verified groups", "whoever verified a group, under its `cache-stripe`"},
};
constexpr auto writers = serve::join(serve::shared_writers, own_writers);

}  // namespace

const ServiceDeclaration declaration{
    .name = "storage",
    .purpose = "Keeps and serves bytes by their BLAKE3 address, verified on every read from disk",
    .owner = "cairn maintainers",
    .last_reviewed = "2026-11-18",
    .drain = Duration::seconds(3),
    .tasks = tasks,
    .queues = queues,
    .locks = locks,
    .lanes = lane_declarations,
    .writers = writers,
    .calls = {"index"},
};

namespace {

void declare_announcing(config::Schema& schema, Keys& keys) {
  using config::Reload;
  keys.index = config::declare_peer_key(schema, "index", "");
  keys.announce = schema.add<bool>({.name = "announce.enabled",
                                    .default_value = "true",
                                    .doc = "Whether the index, if there is one, is told what this node has.",
                                    .reload = Reload::restart});
  keys.announce_endpoints = schema.add<std::vector<std::string>>(
      {.name = "announce.endpoints",
       .default_value = "",
       .doc = "Where others reach this service, the best first: HOST:PORT or https://HOST:PORT with IP "
              "addresses. Empty: where it listens; if that is on all addresses, those of the machine, "
              "loopback only if it has no other.",
       .reload = Reload::restart,
       .check =
           config::Check{"at most 8 of HOST:PORT or https://HOST:PORT, with IP addresses, each once",
                         [](const config::Value& value) {
                           return parse_all_announced(std::get<std::vector<std::string>>(value)).has_value();
                         }}});
  keys.announce_token_file = schema.add<std::string>(
      {.name = "announce.token_file",
       .default_value = "",
       .doc = "A file with a capability for op node.peer of the index, if that is another process.",
       .reload = Reload::restart});
}

}  // namespace

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
  keys.data_dirs = schema.add<std::vector<std::string>>(
      {.name = "storage.data_dirs",
       .default_value = "",
       .doc =
           "Directories that hold objects, each a store of its own; empty: `storage` in the data directory.",
       .reload = Reload::restart});
  keys.segment_size =
      schema.add<Bytes>({.name = "storage.segment_size",
                         .default_value = "256MiB",
                         .doc = "Size at which a segment of the log is ended; on a small disk 1/16 of it.",
                         .reload = Reload::restart,
                         .min = "16MiB",
                         .max = "2GiB"});
  keys.cache_bytes = schema.add<Bytes>({.name = "storage.cache_bytes",
                                        .default_value = "256MiB",
                                        .doc = "Memory for verified groups; with amnesia, for all objects.",
                                        .reload = Reload::restart,
                                        .min = "1MiB",
                                        .max = "1024GiB"});
  keys.fsync = schema.add<bool>({.name = "storage.fsync",
                                 .default_value = "true",
                                 .doc = "Whether a write is durable before it is answered.",
                                 .reload = Reload::restart});
  keys.chunk_size = schema.add<Bytes>({.name = "storage.chunk_size",
                                       .default_value = "64KiB",
                                       .doc = "Streaming step; the format fixes it at one group.",
                                       .reload = Reload::restart,
                                       .min = "64KiB",
                                       .max = "64KiB"});
  keys.scrub_rate = schema.add<Rate>({.name = "scrub.rate",
                                      .default_value = "20MiB/s",
                                      .doc = "How fast the scrubber reads at most.",
                                      .reload = Reload::live});
  keys.scrub_interval = schema.add<Duration>(
      {.name = "scrub.interval",
       .default_value = "7d",
       .doc = "Over which time the scrubber looks at everything once, if its rate allows.",
       .reload = Reload::live,
       .min = "1m",
       .max = "365d"});
  keys.uploads_ttl = schema.add<Duration>(
      {.name = "uploads.ttl",
       .default_value = "24h",
       .doc = "After this an upload that was not committed is ended; when room is short, "
              "after 10 minutes without a part.",
       .reload = Reload::restart,
       .min = "1m",
       .max = "30d"});
  declare_announcing(schema, keys);
  schema.add_memory("storage.cache_bytes", [keys](const config::Snapshot& snapshot) {
    const std::uint64_t cache = snapshot.get(keys.cache_bytes).count;
    return snapshot.get(keys.server.amnesia) ? cache + cache / 16 : cache;
  });
  schema.add_memory("36 MiB for bodies on their way in",
                    [](const config::Snapshot&) { return ingest_bytes + ingest_bytes / 8; });
  return keys;
}

}  // namespace cairn::storage
