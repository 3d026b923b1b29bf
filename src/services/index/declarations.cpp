#include "services/index/declarations.h"

#include "config/snapshot.h"
#include "io/ram_disk.h"
#include "serve/shared_rows.h"
#include "serve/sizes.h"
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
    {"gates", "observer", "one per shard", Criticality::degrading,
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
};
constexpr auto queues = serve::join(serve::shared_queues(shared), own_queues);

constexpr LockDeclaration own_locks[] = {
    store::index_map_lock, store::index_files_lock, store::index_recent_lock,
    io::ram_names_lock,    io::ram_bytes_lock,
};
constexpr auto locks = serve::join(serve::shared_locks, own_locks);

constexpr WriterDeclaration own_writers[] = {
    {"the log of names", "committer"},
    {"the map behind it", "committer"},
};
constexpr auto writers = serve::join(serve::shared_writers, own_writers);

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
  schema.add_memory("18 MiB for bodies on their way in",
                    [](const config::Snapshot&) { return ingest_bytes + ingest_bytes / 8; });
  return keys;
}

}  // namespace cairn::index
