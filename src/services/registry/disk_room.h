// DiskRoom: tells whether the disk has room for changes.
#pragma once

#include "io/machine.h"
#include "observe/log.h"
#include "services/registry/registry.h"

namespace cairn::registry {

class DiskRoom {
 public:
  // All outlive it.
  DiskRoom(io::Machine& machine, const RegistryOptions& options, Status& status, observe::Logger log) noexcept
      : machine_(machine), options_(options), status_(status), log_(log) {}

  // Whether there is room for a change and the checkpoint over it. Sets Status::full to match.
  // Cancel: clean.
  Task<bool> look(Call call);

 private:
  io::Machine& machine_;
  const RegistryOptions& options_;
  Status& status_;
  observe::Logger log_;
  bool looked_ = false;
};

}  // namespace cairn::registry
