#include "services/registry/declarations.h"

#include "config/snapshot.h"
#include "io/ram_disk.h"
#include "serve/shared_rows.h"
#include "serve/sizes.h"
#include "services/registry/port.h"

namespace cairn::registry {
namespace {

constexpr serve::SharedRows shared{.work = work_capacity, .publishers = {"publisher", "auditor"}};
constexpr TaskDeclaration own_tasks[] = {
    {"committer", "committer", "one", Criticality::essential,
     "the only writer of the log, the ledger and HEAD: decides, writes in groups, tells", "supervisor"},
    {"sweeper", "sweeper", "one", Criticality::degrading, "ends proposals whose time is over", "supervisor"},
    {"checkpointer", "checkpointer", "one", Criticality::degrading,
     "reads back what is durable, signs it, writes tiles and snapshots", "supervisor"},
    {"pruner", "pruner", "one", Criticality::degrading,
     "gives back the room of versions that a checkpoint covers", "supervisor"},
    {"verifier", "verifier", "one", Criticality::degrading,
     "walks the whole chain again in slices, names what is damaged", "supervisor"},
    {"auditor", "auditor", "one", Criticality::degrading,
     "carries the audit trail's events into their ring once a second, tells the bus", "supervisor"},
    {"publisher", "publisher", "one", Criticality::degrading, "tells the bus of every new version",
     "supervisor"},
    {"gates", "observer", "one per shard", Criticality::degrading,
     "opens and closes readiness as the log says, shows how full queues are", "supervisor"},
};
constexpr auto tasks = serve::join(serve::shared_tasks(shared), own_tasks);

constexpr QueueDeclaration own_queues[] = {
    {"proposals",
     QueueKind::mpsc,
     queue_capacity,
     {"worker"},
     {"committer"},
     OverflowPolicy::refuse,
     "queue_depth"},
    {"approvals",
     QueueKind::mpsc,
     queue_capacity,
     {"worker"},
     {"committer"},
     OverflowPolicy::refuse,
     "queue_depth"},
    {"commits",
     QueueKind::mpsc,
     queue_capacity,
     {"worker"},
     {"committer"},
     OverflowPolicy::refuse,
     "queue_depth"},
    {"chores",
     QueueKind::mpsc,
     chores_capacity,
     {"sweeper", "checkpointer", "pruner"},
     {"committer"},
     OverflowPolicy::refuse,
     "queue_depth",
     {},
     false},
    {"committed",
     QueueKind::broadcast,
     committed_capacity,
     {"committer"},
     {"publisher", "connection"},
     OverflowPolicy::drop_oldest,
     "bus_lagged_total",
     {},
     true,
     "bus.channel_bound"},
    {"feed",
     QueueKind::mpsc,
     committed_capacity,
     {"committer"},
     {"connection", "publisher"},
     OverflowPolicy::drop_oldest,
     "bus_lagged_total",
     {},
     true,
     "bus.channel_bound"},
    {"newest",
     QueueKind::watch,
     1,
     {"committer"},
     {"checkpointer", "verifier"},
     OverflowPolicy::keep_latest,
     ""},
    {"audit",
     QueueKind::mpsc,
     audit_capacity,
     {"connection", "worker", "committer"},
     {"auditor"},
     OverflowPolicy::refuse,
     "registry_audit_dropped_total"},
    {"retention_cmd",
     QueueKind::mpsc,
     retention_capacity,
     {"checkpointer"},
     {"pruner"},
     OverflowPolicy::refuse,
     "registry_prunes_skipped_total"},
};
constexpr auto queues = serve::join(serve::shared_queues(shared), own_queues);

constexpr LockDeclaration own_locks[] = {
    ports_lock, ledger_lock, feed_lock, audit_lock, io::ram_names_lock, io::ram_bytes_lock,
};
constexpr auto locks = serve::join(serve::shared_locks, own_locks);

constexpr WriterDeclaration own_writers[] = {
    {"the log and HEAD", "committer"},
    {"the ledger", "committer"},
    {"the ledger's marks of damage", "whoever reads a version and finds it bad, under `ledger`"},
    {"tiles, checkpoint and snapshot", "checkpointer"},
    {"heads on their way to a shard", "committer, under `feed`"},
    {"the ring of the audit trail", "auditor"},
};
constexpr auto writers = serve::join(serve::shared_writers, own_writers);

}  // namespace

const ServiceDeclaration declaration{
    .name = "registry",
    .purpose = "Keeps signed descriptors under M-of-N approval in a log that anyone can verify",
    .owner = "cairn maintainers",
    .last_reviewed = "2026-11-18",
    .drain = Duration::seconds(3),
    .tasks = tasks,
    .queues = queues,
    .locks = locks,
    .lanes = lane_declarations,
    .writers = writers,
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
  keys.kind = schema.add<StorageKind>({.name = "storage.kind",
                                       .default_value = "embedded",
                                       .doc = "Where the log is: on disk, or in memory only.",
                                       .reload = Reload::restart,
                                       .choices = {"embedded", "ram"}});
  keys.data_dir =
      schema.add<std::string>({.name = "storage.data_dir",
                               .default_value = "",
                               .doc = "Directory of the log; empty: `registry` in the data directory.",
                               .reload = Reload::restart});
  keys.fsync = schema.add<bool>({.name = "storage.fsync",
                                 .default_value = "true",
                                 .doc = "Whether a change is durable before it is answered.",
                                 .reload = Reload::restart});
  keys.checkpoint_interval =
      schema.add<Duration>({.name = "storage.checkpoint_interval",
                            .default_value = "10m",
                            .doc = "How often a checkpoint is signed when nothing is committed.",
                            .reload = Reload::live,
                            .min = "1s",
                            .max = "30d"});
  keys.segment_size = schema.add<Bytes>({.name = "storage.segment_size",
                                         .default_value = "64MiB",
                                         .doc = "Size at which a segment of the log is ended.",
                                         .reload = Reload::restart,
                                         .min = "1MiB",
                                         .max = "2GiB"});
  keys.slow_sync = schema.add<Duration>({.name = "storage.slow_sync",
                                         .default_value = "1s",
                                         .doc = "When a write to disk takes longer, writes are not ready.",
                                         .reload = Reload::restart,
                                         .min = "1ms",
                                         .max = "30s"});
  keys.retention_policy =
      schema.add<Retention::Policy>({.name = "retention.policy",
                                     .default_value = "none",
                                     .doc = "Which old versions are pruned, once a checkpoint covers them.",
                                     .reload = Reload::live,
                                     .choices = {"none", "by-age", "by-count", "by-size"}});
  keys.retention_age = schema.add<Duration>({.name = "retention.max_age",
                                             .default_value = "30d",
                                             .doc = "by-age: versions older than this may go.",
                                             .reload = Reload::live});
  keys.retention_count = schema.add<std::int64_t>({.name = "retention.max_count",
                                                   .default_value = "10000",
                                                   .doc = "by-count: so many newest versions are kept.",
                                                   .reload = Reload::live,
                                                   .min = "1"});
  keys.retention_bytes = schema.add<Bytes>({.name = "retention.target_bytes",
                                            .default_value = "1GiB",
                                            .doc = "by-size: what the log may take.",
                                            .reload = Reload::live,
                                            .min = "1MiB"});
  keys.trust_roots_path =
      schema.add<std::string>({.name = "bootstrap.trust_roots_path",
                               .default_value = "",
                               .doc = "File with the trust roots that the log must begin with; empty: "
                                      "`trust-roots.json` in the registry's directory.",
                               .reload = Reload::restart});
  keys.trust_roots_hash =
      schema.add<std::string>({.name = "bootstrap.trust_roots_hash",
                               .default_value = "",
                               .doc = "The address (b3:…) that this file must have; empty: any.",
                               .reload = Reload::restart});
  keys.channel_bound =
      schema.add<std::int64_t>({.name = "bus.channel_bound",
                                .default_value = "1024",
                                .doc = "Heads kept for a subscriber that is slow, before it misses some.",
                                .reload = Reload::restart,
                                .min = "1",
                                .max = "65536"});
  keys.proposals_ttl = schema.add<Duration>({.name = "proposals.ttl",
                                             .default_value = "24h",
                                             .doc = "After this a proposal that was not committed is ended.",
                                             .reload = Reload::restart,
                                             .min = "1s",
                                             .max = "30d"});
  keys.proposals_max = schema.add<std::int64_t>({.name = "proposals.max_pending",
                                                 .default_value = "1024",
                                                 .doc = "Proposals that may be pending at once.",
                                                 .reload = Reload::restart,
                                                 .min = "1",
                                                 .max = "65536"});
  schema.add_memory("36 MiB for bodies on their way in",
                    [](const config::Snapshot&) { return ingest_bytes + ingest_bytes / 8; });
  return keys;
}

}  // namespace cairn::registry
