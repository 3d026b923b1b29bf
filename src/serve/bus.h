// Bus: one shard's part of the channels that every service has: the watches `shutdown` and `config`, and the
// events of the whole process.
#pragma once

#include "config/snapshot.h"
#include "runtime/drain.h"
#include "runtime/watch.h"
#include "serve/process_bus.h"

namespace cairn::serve {

struct Bus {
  Bus(Shard& shard, config::SnapshotPtr snapshot, ProcessBus& process, std::string_view service)
      : drain(shard),
        config(shard, std::move(snapshot)),
        events(process.events(shard.index())),
        process_(process),
        service_(service) {}

  // Tells every service of the process, on every shard.
  void publish(Event event) {
    event.service = service_;
    process_.publish(event);
  }

  Drain drain;  // drain.shutdown() is the watch
  Watch<config::SnapshotPtr> config;
  Broadcast<Event>& events;

 private:
  ProcessBus& process_;
  std::string_view service_;
};

}  // namespace cairn::serve
