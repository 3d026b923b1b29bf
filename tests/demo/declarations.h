// Everything the demo declares but its routes (service.cpp): settings, tasks, queues, locks, gates. Each
// once.
#pragma once

#include "config/schema.h"
#include "config/server_keys.h"
#include "runtime/topology.h"
#include "serve/service.h"

namespace cairn::demo {

inline constexpr std::size_t workers_per_shard = 8;
inline constexpr std::int64_t work_capacity = 512;

struct Keys {
  config::ServerKeys server;
  config::Key<std::string> files;
  config::Key<std::string> root_keys;
};

inline Keys declare_keys(config::Schema& schema, bool alone = true) {
  Keys keys;
  config::ServerDefaults defaults;
  defaults.alone = alone;
  defaults.bind = alone ? "127.0.0.1:7499" : "127.0.0.1:0";
  defaults.work_queue = work_capacity;
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

inline constexpr TaskDeclaration tasks[] = {
    {"supervisor", "supervisor", "one per shard", Criticality::essential,
     "starts workers, restarts them, ends them in order", "the process"},
    {"reloader", "host", "one per process", Criticality::degrading,
     "reads the configuration again after SIGHUP, off the shards, and applies it", "the process"},
    {"watch-keys", "host", "one per process", Criticality::degrading,
     "reads the root keys of capabilities again when their file has changed", "the process"},
    {"listener", "listener", "one per shard", Criticality::essential, "accepts connections within the caps",
     "the shard's connection scope"},
    {"connection", "connection", "one per connection", Criticality::essential, "reads heads, admits, answers",
     "the shard's connection scope"},
    {"worker", "worker", "8 per shard", Criticality::essential, "runs what was queued", "supervisor"},
    {"event-log", "observer", "one per shard", Criticality::degrading,
     "writes events to the log, counts what it missed", "supervisor"},
};

inline constexpr QueueDeclaration queues[] = {
    {"work",
     QueueKind::mpsc,
     work_capacity,
     {"connection"},
     {"worker"},
     OverflowPolicy::refuse,
     "queue_depth"},
    {"cfg_reload",
     QueueKind::mpsc,
     serve::reloads_capacity,
     {"supervisor"},
     {"reloader"},
     OverflowPolicy::keep_latest,
     "queue_depth"},
    {"events",
     QueueKind::broadcast,
     serve::events_capacity,
     {"supervisor"},
     {"event-log"},
     OverflowPolicy::drop_oldest,
     "bus_lagged_total"},
    {"shutdown",
     QueueKind::watch,
     1,
     {"supervisor"},
     {"listener", "connection", "worker"},
     OverflowPolicy::keep_latest,
     ""},
    {"config",
     QueueKind::watch,
     1,
     {"supervisor"},
     {"connection", "worker"},
     OverflowPolicy::keep_latest,
     ""},
};

inline constexpr LockDeclaration locks[] = {
    {"addresses", 10, "connections counted per address (16 stripes)"},
};

inline constexpr WriterDeclaration writers[] = {
    {"a connection's stream", "its connection task"},
    {"an exchange's response", "connection, then the worker it was handed to"},
    {"metric cells of a shard", "that shard"},
};

inline constexpr ServiceDeclaration declaration{
    .name = "demo",
    .purpose = "A small service that uses everything services share, for tests and benchmarks",
    .owner = "cairn maintainers",
    .last_reviewed = "2026-11-15",
    .drain = Duration::seconds(3),
    .tasks = tasks,
    .queues = queues,
    .locks = locks,
    .writers = writers,
};

}  // namespace cairn::demo
