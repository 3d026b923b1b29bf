// Auditor: writes the trail's events into their ring (audit.h). No task waits for it, and it syncs nothing.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "io/machine.h"
#include "observe/log.h"
#include "services/registry/registry.h"

namespace cairn::registry {

class Auditor {
 public:
  // All outlive it.
  Auditor(Registry& registry, io::Machine& machine, observe::Logger log) noexcept
      : registry_(registry), machine_(machine), log_(log) {}

  // The task; runs until its call is stopped. Calls `tell` with the newest sequence when it has grown.
  Task<> run(Call call, std::function<void(std::uint64_t)> tell);
  // Writes the trail's events into the ring; events that cannot be written are dropped and counted. `all`:
  // also those of the second that is not over yet. Cancel: partial — the events may be in the ring.
  Task<Result<>> flush(Call call, bool all);

 private:
  Task<Result<>> open_ring(Call call);
  Task<Result<>> write_ring(Call call, const std::vector<AuditEvent>& events);

  Registry& registry_;
  io::Machine& machine_;
  observe::Logger log_;
  std::shared_ptr<io::File> file_;  // none: not opened, or a write failed
  bool told_ = false;               // a warning was logged
};

}  // namespace cairn::registry
