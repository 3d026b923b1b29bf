// Everything the demo declares but its routes (service.cpp): settings, tasks, queues, locks, gates. Each
// once.
#pragma once

#include "config/schema.h"
#include "config/server_keys.h"
#include "runtime/topology.h"
#include "serve/service.h"
#include "serve/shared_rows.h"
#include "serve/sizes.h"

namespace cairn::demo {

inline constexpr std::size_t workers_per_shard = 8;
inline constexpr std::int64_t work_capacity = 512;

struct Keys {
  config::ServerKeys server;
  config::Key<std::string> files;
  config::Key<std::string> root_keys;
};

inline constexpr serve::SharedRows shared{.workers = "8 per shard", .work = work_capacity};
inline constexpr auto tasks = serve::shared_tasks(shared);

inline constexpr auto queues = serve::shared_queues(shared);

inline constexpr auto locks = serve::shared_locks;

inline constexpr auto writers = serve::shared_writers;

inline constexpr ServiceDeclaration declaration{
    .name = "demo",
    .purpose = "A small service that uses everything services share, for tests and benchmarks",
    .owner = "cairn maintainers",
    .last_reviewed = "2026-11-18",
    .drain = Duration::seconds(3),
    .tasks = tasks,
    .queues = queues,
    .locks = locks,
    .lanes = lane_declarations,
    .writers = writers,
};

inline Keys declare_keys(config::Schema& schema, bool alone = true) {
  Keys keys;
  config::ServerDefaults defaults;
  defaults.alone = alone;
  defaults.bind = alone ? "127.0.0.1:7499" : "127.0.0.1:0";
  defaults.queues = serve::queue_sizes(declaration);
  defaults.pools = serve::pool_sizes();
  keys.server = config::declare_server_keys(schema, defaults);
  keys.files = schema.add<std::string>({.name = "demo.files",
                                        .default_value = "",
                                        .doc = "Directory whose files `/file/{name}` serves; empty: none.",
                                        .reload = config::Reload::restart});
  keys.root_keys =
      schema.add<std::string>({.name = "demo.root_keys",
                               .default_value = "",
                               .doc = "The file of root keys whose capabilities `/guarded` asks for; empty: "
                                      "it asks for none.",
                               .reload = config::Reload::restart});
  return keys;
}

}  // namespace cairn::demo
