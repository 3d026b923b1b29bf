// Auditor: carries the trail's events into their ring (audit.h). Nobody waits for it, and it syncs nothing.
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

  // The task, until its call is stopped. `tell` is told the newest sequence when there are new ones.
  Task<> run(Call call, std::function<void(std::uint64_t)> tell);
  // Writes the trail's events into the ring; those that cannot be are dropped and counted. `all`: also of the
  // second that is not over yet. Cancel: partial — they may be there.
  Task<Result<>> flush(Call call, bool all);

 private:
  Task<Result<>> open_ring(Call call);
  Task<Result<>> write_ring(Call call, const std::vector<AuditEvent>& events);

  Registry& registry_;
  io::Machine& machine_;
  observe::Logger log_;
  std::shared_ptr<io::File> file_;  // none: not opened, or it failed
  bool told_ = false;               // that it failed
};

}  // namespace cairn::registry
