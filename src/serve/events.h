// What a service tells itself: the in-process part of the bus. Slow listeners lose the oldest, and are told.
#pragma once

#include <cstdint>

#include "base/address.h"
#include "config/snapshot.h"
#include "runtime/broadcast.h"
#include "runtime/drain.h"
#include "runtime/watch.h"

namespace cairn::serve {

struct Event {
  enum class Kind : std::uint8_t { shutdown, config_updated, registry_updated, registry_audited };
  Kind kind;
  // Of the configuration, or of the registry; registry_audited: the newest sequence of its audit trail.
  std::uint64_t version = 0;
  Address b3 = {};  // registry_updated: the hash of its new head
};

inline constexpr std::size_t events_capacity = 1024;
// Of `cfg_reload`: signals that ask for the configuration to be read again, collapsed into one reading.
inline constexpr std::size_t reloads_capacity = 16;

// A shard's copy of what every service has: the watches `shutdown` and `config` and the broadcast `events`.
struct Bus {
  Bus(Shard& shard, config::SnapshotPtr snapshot)
      : drain(shard), config(shard, std::move(snapshot)), events(shard, events_capacity) {}

  Drain drain;  // drain.shutdown() is the watch
  Watch<config::SnapshotPtr> config;
  Broadcast<Event> events;
};

}  // namespace cairn::serve
