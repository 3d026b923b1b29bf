#include "services/registry/home.h"

#include "services/registry/recovery.h"

namespace cairn::registry {

Task<Result<std::unique_ptr<Home>>> Home::open(
    Call call,
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): both outlive the home
    Registry& registry, io::Machine& machine, observe::Logger log) {
  Recovery recovery(registry, machine, log);
  CO_TRY(auto backend, co_await recovery.run(call));
  std::unique_ptr<Home> home(new Home(registry, machine, log, std::move(backend), recovery.snapshot_end()));
  registry.publish_status(home->backend_->log());
  (void)co_await home->room_.look(call);
  registry.status().open = true;
  co_return home;
}

Home::Home(Registry& registry, io::Machine& machine, observe::Logger log,
           std::unique_ptr<EmbeddedBackend> backend, std::uint64_t snapshot_end)
    : registry_(registry),
      log_(log),
      backend_(std::move(backend)),
      port_(registry.make_port(machine)),
      room_(machine, registry.options(), registry.status(), log),
      committer_(registry, machine, log, *backend_, room_, newest_),
      chores_(committer_.errands(), machine.mailbox, registry.chores_),
      snapshots_(machine, registry.options().directory, registry.ledger(), committer_.applied(),
                 snapshot_end),
      verifier_(registry, machine, log, *port_, newest_),
      pruner_(registry, machine, log, backend_->log(), *port_, chores_),
      tiles_(registry, machine, *port_),
      checkpointer_(registry, machine, log,
                    {.port = *port_,
                     .chores = chores_,
                     .newest = newest_,
                     .tiles = tiles_,
                     .snapshots = snapshots_,
                     .verifier = verifier_,
                     .pruner = pruner_}),
      proposal_expiry_(machine.shard, registry.ledger(), chores_, log),
      auditor_(registry, machine, log) {}

// Without close() no answered change is lost: the next start only reads more of the log.
Home::~Home() {
  if (registry_.status().open) log_.debug("dropped unclosed", {{"directory", registry_.options().directory}});
}

Task<Result<>> Home::close(Call call) {
  registry_.status().open = false;
  committer_.errands().close();
  (void)co_await auditor_.flush(call, true);
  if (!backend_->fenced() && !registry_.status().fenced)
    if (auto written = co_await snapshots_.write(call); !written)
      log_.warn("the snapshot was not written: the next start reads more of the log",
                {{"code", name_of(written.error().code)}, {"why", written.error().context}});
  port_.reset();
  co_return co_await backend_->log().close(call);
}

}  // namespace cairn::registry
