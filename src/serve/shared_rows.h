// The rows that every service has in its declaration: the tasks, queues, locks and writers of the machinery
// that serves it. A service joins its own rows to them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/declaration.h"
#include "runtime/lane.h"
#include "runtime/mailbox.h"
#include "serve/events.h"
#include "serve/locks.h"

namespace cairn::serve {

// The rows' values that differ from service to service.
struct SharedRows {
  std::string_view workers = "128 per shard";
  std::uint64_t work = 512;  // places in the queue
  NameList publishers = {};  // tasks of its own that tell the bus; at most seven
};

consteval auto shared_tasks(const SharedRows& of) {
  constexpr std::string_view process = "the process", scope = "the shard's connection scope";
  return std::to_array<TaskDeclaration>({
      {"supervisor", "supervisor", "one per shard", Criticality::essential,
       "starts tasks, restarts them, ends them in order", process},
      {"reloader", "host", "one per process", Criticality::degrading,
       "reads the configuration again after SIGHUP, off the shards, and applies it; wipes old keys of "
       "session tickets",
       process},
      {"watch-keys", "host", "one per process", Criticality::degrading,
       "reads the root keys of capabilities again when their file has changed", process},
      {"watch-revocations", "host", "one per process", Criticality::degrading,
       "revokes the capability keys that a registry of the process revokes", process},
      {"afterwards", "host", "one, in cairn up", Criticality::degrading,
       "makes storage known to the registry, and ends", process},
      {"chaos", "host", "one, in tests of whole processes", Criticality::optional,
       "makes tasks fail as a file says", process},
      {"listener", "listener", "one per shard", Criticality::essential, "accepts connections within the caps",
       scope},
      {"connection", "connection", "one per connection", Criticality::essential,
       "reads heads, admits, takes bodies in, answers in its turn, sends", scope},
      {"conversation", "connection", "one per WebSocket", Criticality::essential,
       "listens while its connection sends", "connection"},
      {"worker", "worker", of.workers, Criticality::essential,
       "is a turn: as many requests that wait for something run at once", "supervisor"},
      {"event-log", "observer", "one per shard", Criticality::degrading,
       "writes events to the log, counts what it missed", "supervisor"},
  });
}

// `work` is the first.
consteval auto shared_queues(const SharedRows& of) {
  NameList telling{"supervisor"};
  for (std::size_t i = 0; i + 1 < telling.size(); ++i) telling[i + 1] = of.publishers[i];
  // The tasks whose calls run on another shard, besides errands and jobs. Those are bounded by the work that
  // they belong to.
  NameList calling{"reloader", "watch-keys", "watch-revocations"};
  for (std::size_t i = 0; i + 3 < calling.size(); ++i) calling[i + 3] = of.publishers[i];
  return std::to_array<QueueDeclaration>({
      {.name = "work",
       .capacity = of.work,
       .producers = {"connection"},
       .consumers = {"worker"},
       .metric = "queue_depth"},
      {.name = "cfg_reload",
       .capacity = reloads_capacity,
       .producers = {"supervisor"},
       .consumers = {"reloader"},
       .policy = OverflowPolicy::drop_oldest,
       .metric = "queue_depth",
       .fixed = true},
      {.name = "mailbox",
       .capacity = Mailbox::default_call_capacity,
       .producers = calling,
       .consumers = {"supervisor"},
       .metric = "bus_lagged_total",
       .fixed = true},
      {.name = "events",
       .kind = QueueKind::broadcast,
       .capacity = events_capacity,
       .producers = telling,
       .consumers = {"event-log", "watch-revocations"},
       .policy = OverflowPolicy::drop_oldest,
       .metric = "bus_lagged_total"},
      {.name = "shutdown",
       .kind = QueueKind::watch,
       .capacity = 1,
       .producers = {"supervisor"},
       .consumers = {"listener", "connection", "worker"},
       .policy = OverflowPolicy::keep_latest,
       .metric = ""},
      {.name = "config",
       .kind = QueueKind::watch,
       .capacity = 1,
       .producers = {"supervisor"},
       .consumers = {"connection", "worker"},
       .policy = OverflowPolicy::keep_latest,
       .metric = ""},
  });
}

inline constexpr auto shared_locks = std::to_array<LockDeclaration>({addresses_lock, root_keys_lock});

inline constexpr auto shared_writers = std::to_array<WriterDeclaration>({
    {"a connection's stream", "its connection task"},
    {"an exchange's response", "its connection task"},
    {"the root keys", "watch-keys, watch-revocations, or the request that revokes, under `root-keys`"},
    {"what an address holds", "its connections, under `addresses`"},
    {"metric cells of a shard", "that shard"},
});

template <class Row, std::size_t A, std::size_t B>
consteval std::array<Row, A + B> join(const std::array<Row, A>& common, const Row (&own)[B]) {
  std::array<Row, A + B> rows{};
  for (std::size_t i = 0; i < A; ++i) rows[i] = common[i];
  for (std::size_t i = 0; i < B; ++i) rows[A + i] = own[i];
  return rows;
}

}  // namespace cairn::serve
