// Readiness, and how full the queues are.
#include "runtime/wait.h"
#include "services/registry/home.h"
#include "services/registry/shard.h"

namespace cairn::registry {

// Writes become unready before reads: a slow disk, a fenced log or a damaged version closes only the gate of
// writes; a disk that cannot be read closes both. Only its listeners need the bus.
Task<> RegistryShard::watch_gates(Call call) {
  const bool home = machine_.shard.index() == 0;
  do {
    context_.metrics.show_depth("feed", slot_, port_->coming());
    context_.metrics.show_depth("committed", slot_, port_->committed().waiting());
    if (home) co_await watch_home(call);
  } while (co_await sleep_for(call, Duration::millis(100)));
}

Task<> RegistryShard::watch_home(Call call) {
  Status& status = shared_.registry->status();
  context_.health.set("store", co_await port_->can_read(call.within(Duration::seconds(1))));
  context_.health.set("bus", publisher_.keeps_up(machine_.shard.now()));
  context_.health.set("writes", shared_.registry->writable(machine_.shard.now()));
  if (const Instant now = machine_.shard.now(); now - looked_for_room_ >= Duration::seconds(1)) {
    looked_for_room_ = now;
    (void)co_await shared_.registry->home().room().look(call.within(Duration::seconds(1)));
  }
  if (const auto at = status.checkpoint_at.load(); at != 0)
    status.checkpoint_age = std::max<std::int64_t>(0, machine_.shard.wall().ms - at);
  for (const char* queue : {"proposals", "approvals", "commits", "chores", "audit", "retention_cmd"})
    context_.metrics.show_depth(queue, slot_, shared_.registry->queue_depth(queue));
}

}  // namespace cairn::registry
