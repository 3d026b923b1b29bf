// Checkpointer: reads durable commits back, signs a checkpoint over them, and has its tiles written.
//
//   [RH-5] A checkpoint is signed only over commits that are durable and were read back from the disk.
#pragma once

#include "io/machine.h"
#include "observe/log.h"
#include "services/registry/chores.h"
#include "services/registry/newest.h"
#include "services/registry/port.h"
#include "services/registry/pruner.h"
#include "services/registry/snapshot_writer.h"
#include "services/registry/tile_files.h"
#include "services/registry/verifier.h"

namespace cairn::registry {

class Checkpointer {
 public:
  // The parts of the home that it uses.
  struct With {
    Port& port;  // of this shard
    Chores& chores;
    Newest& newest;
    TileFiles& tiles;
    SnapshotWriter& snapshots;
    const Verifier& verifier;
    Pruner& pruner;
  };
  // All outlive it.
  Checkpointer(Registry& registry, io::Machine& machine, observe::Logger log, With with) noexcept
      : registry_(registry),
        machine_(machine),
        log_(log),
        with_(with),
        interval_(registry.options().checkpoint_interval) {}

  // The task, until its call is stopped.
  Task<> run(Call call);
  // One round of it. Cancel: partial — as after a crash.
  Task<Result<>> run_once(Call call);
  // How often a checkpoint is signed when nothing is committed.
  void set_interval(Duration interval) noexcept { interval_ = interval; }

 private:
  Registry& registry_;
  io::Machine& machine_;
  observe::Logger log_;
  With with_;
  Duration interval_;
};

}  // namespace cairn::registry
