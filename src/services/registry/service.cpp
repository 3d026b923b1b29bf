#include "services/registry/service.h"

#include <algorithm>

#include "serve/sizes.h"
#include "services/registry/home.h"
#include "services/registry/shard.h"

namespace cairn::registry {

using serve::Request;

void Metrics::declare(observe::Registry& registry) {
  integrity = registry.counters({"integrity_fail_total",
                                 "Reads refused because stored bytes did not match.",
                                 {{"reason", {"checksum"}}}});
  reload_success = registry.observed_counters({"registry_reload_success_total",
                                               "Configurations read again and in force, changed or not.",
                                               {{"source", {"signal"}}}});
  reload_fail = registry.observed_counters(
      {"registry_reload_fail_total", "Configurations refused.", {{"reason", {"invalid"}}}});
}

RegistryShard::RegistryShard(Shared& shared, serve::ShardContext context)
    : shared_(shared),
      context_(context),
      machine_{context.machine.shard,   context.machine.slab,
               context.machine.network, shared.ram ? *shared.ram : context.machine.disk,
               context.machine.entropy, context.machine.mailbox,
               context.machine.pool,    context.machine.memory},
      slot_(context.slot) {
  if (machine_.shard.index() != 0) return;
  // The host counts reloads for every service; these are the registry's own names for them.
  const observe::Counter applied = context_.metrics.config_reload.at(0),
                         unchanged = context_.metrics.config_reload.at(1),
                         refused = context_.metrics.config_reload.at(2);
  shared_.metrics.reload_success.bind(
      [applied, unchanged] { return static_cast<double>(applied.value() + unchanged.value()); }, 0);
  shared_.metrics.reload_fail.bind([refused] { return static_cast<double>(refused.value()); }, 0);
}
RegistryShard::~RegistryShard() = default;

// Shard 0 makes the shared state and is the home.
Task<Result<>> RegistryShard::start(Call call) {
  const bool home = machine_.shard.index() == 0;
  if (home) {
    shared_.registry = std::make_unique<Registry>(shared_.options.registry);
    shared_.made_registry.store(shared_.registry.get(), std::memory_order_release);
    CO_TRY_VOID(co_await shared_.registry->open(call, machine_, context_.log));
  }
  port_ = shared_.registry->make_port(machine_);
  if (home) {
    Home& tended = shared_.registry->home();
    Supervisor& tasks = context_.tasks;
    CO_TRY_VOID(tasks.start("committer", [&tended](Call c) { return tended.committer().run(c); }));
    CO_TRY_VOID(tasks.start("sweeper", [&tended](Call c) { return tended.proposal_expiry().run(c); }));
    CO_TRY_VOID(tasks.start("checkpointer", [&tended](Call c) { return tended.checkpointer().run(c); }));
    CO_TRY_VOID(tasks.start("pruner", [&tended](Call c) { return tended.pruner().run(c); }));
    CO_TRY_VOID(tasks.start("verifier", [&tended](Call c) { return tended.verifier().run(c); }));
    CO_TRY_VOID(tasks.start("auditor", [this, &tended](Call c) {
      return tended.auditor().run(c, [this](std::uint64_t newest) {
        context_.bus.publish({serve::Event::Kind::registry_audited, newest});
      });
    }));
    CO_TRY_VOID(tasks.start("publisher", [this](Call c) { return publish_loop(c); }));
    context_.health.set("store", true);
    context_.health.set("bus", true);
    context_.health.set("writes", shared_.registry->writable(machine_.shard.now()));
  }
  CO_TRY_VOID(context_.tasks.start("gates", [this](Call c) { return watch_gates(c); }));
  co_return Result<>{};
}

Task<> RegistryShard::stop(Call call) {
  port_.reset();
  if (machine_.shard.index() != 0 || !shared_.registry) co_return;
  if (auto closed = co_await shared_.registry->close(call); !closed)
    context_.log.warn("the log did not close cleanly", {{"why", closed.error().context}});
}

void RegistryShard::apply(const config::Snapshot& snapshot) {
  // During a start, or after one that failed, there is no home to tell.
  if (machine_.shard.index() != 0 || !shared_.registry || !shared_.registry->status().open) return;
  const Options options = read_options(snapshot, shared_.keys, "");
  shared_.registry->home().pruner().set_retention(options.registry.retention);
  shared_.registry->home().checkpointer().set_interval(options.registry.checkpoint_interval);
}

Task<> RegistryShard::publish_loop(Call call) {
  Publish publish = shared_.publish;
  if (!publish) publish = [this](Call, Head head) -> Task<Result<>> { return tell_bus(head); };
  return publish_heads(
      call, port_.get(), std::move(publish),
      [this](std::uint64_t missed) { context_.metrics.count_lag("committed", "publisher", slot_, missed); },
      &publisher_);
}

Task<Result<>> RegistryShard::tell_bus(Head head) {
  context_.bus.publish({serve::Event::Kind::registry_updated, head.version, head.commit_b3});
  co_return Result<>{};
}

// A revocation names a key by its id, whatever kind of key it is.
std::vector<std::string> RegistryShard::revoked_keys() {
  return shared_.registry->ledger().with([](Ledger& ledger) { return ledger.governance().revoked; });
}

namespace {

class RegistryService final : public serve::Service {
  static constexpr std::uint64_t ram_bytes = std::uint64_t{256} << 20;

  template <class F>
  auto reader(F read) {
    return [this, read] {
      auto* registry = shared_.made_registry.load(std::memory_order_acquire);
      return registry != nullptr ? static_cast<double>(read(registry->status())) : 0.0;
    };
  }

 public:
  RegistryService(Options options, Keys keys, Publish publish)
      : shared_{.options = std::move(options),
                .keys = keys,
                .publish = std::move(publish),
                .metrics = {},
                .ram = {},
                .registry = {}} {
    if (shared_.options.ram) shared_.ram = std::make_unique<io::RamDisk>(ram_bytes);
  }

  const ServiceDeclaration& declaration() const override { return registry::declaration; }
  std::span<const serve::RouteSpec> routes() const override { return RegistryShard::routes(); }
  std::vector<serve::GateDeclaration> gates() const override {
    return {std::begin(registry::gates), std::end(registry::gates)};
  }
  std::unique_ptr<serve::ServiceShard> make_shard(serve::ShardContext context) override {
    return std::make_unique<RegistryShard>(shared_, context);
  }
  void declare_metrics(observe::Registry& registry) override {
    shared_.metrics.declare(registry);
    gauge(registry, "registry_versions", "Versions committed.", [](Status& s) { return s.versions.load(); });
    gauge(registry, "registry_pending_proposals", "Proposals that wait for approval or commit.",
          [](Status& s) { return s.pending.load(); });
    gauge(registry, "registry_storage_bytes", "Bytes of the log.",
          [](Status& s) { return s.log_bytes.load(); });
    gauge(registry, "registry_log_segments", "Segments of the log.",
          [](Status& s) { return s.segments.load(); });
    gauge(registry, "registry_damaged_versions", "Versions whose bytes were found bad.",
          [](Status& s) { return s.bad.load(); });
    gauge(registry, "registry_verified_version", "How far the deep verifier has come.",
          [](Status& s) { return s.verified.load(); });
    gauge(registry, "audit_chain_verify_seconds", "How long the last whole pass of the deep verifier took.",
          [](Status& s) { return static_cast<double>(s.verify_took.load()) / 1e9; });
    gauge(registry, "registry_checkpoint_age_seconds", "Age of the last checkpoint.",
          [](Status& s) { return static_cast<double>(s.checkpoint_age.load()) / 1e3; });
    counter(registry, "commit_cas_fail_total", "Commits that another one had overtaken.",
            [](Status& s) { return s.cas_failed.load(); });
    counter(registry, "registry_recoveries_total", "Starts that had to replay the log.",
            [](Status& s) { return s.recoveries.load(); });
    counter(registry, "registry_prunes_skipped_total",
            "Rounds of retention left out because one was waiting.",
            [](Status& s) { return s.prunes_skipped.load(); });
    counter(registry, "registry_audit_dropped_total", "Events of the audit trail that were not written down.",
            [](Status& s) { return s.audit_dropped.load(); });
    const auto updates = registry.observed_counters({"registry_updates_total",
                                                     "Changes that were asked for, by what became of them.",
                                                     {{"result", {"committed", "accepted", "rejected"}}}});
    updates.bind(reader([](Status& s) { return s.committed.load(); }), 0);
    updates.bind(reader([](Status& s) { return s.accepted.load(); }), 1);
    updates.bind(reader([](Status& s) { return s.refused.load(); }), 2);
    auto backoff = registry.observed_counters(
        {"storage_backoff_total", "Storage operations tried again after a pause.", {{"op", {"read"}}}});
    backoff.bind(reader([](Status& s) { return s.backoffs.load(); }), 0);
    // Labels are a closed set: the organisations of genesis; those that came later share one.
    std::vector<std::string> orgs;
    if (auto genesis = format::decode_descriptor_set(as_bytes(shared_.options.registry.genesis.payload)))
      if (auto governance = format::read_governance(genesis->items))
        for (const format::Signer& signer : governance->signers)
          if (signer.org && std::ranges::find(orgs, *signer.org) == orgs.end()) orgs.push_back(*signer.org);
    orgs.emplace_back("other");
    const auto signers = registry.observed_gauges(
        {"registry_signers", "Signers that can approve the next version.", {{"org", orgs}}});
    for (std::size_t i = 0; i < orgs.size(); ++i)
      signers.bind(
          [this, orgs, i] {
            auto* made = shared_.made_registry.load(std::memory_order_acquire);
            if (made == nullptr) return 0.0;
            return made->ledger().with([&](Ledger& ledger) {
              const format::Governance& governance = ledger.governance();
              double count = 0;
              for (const format::Signer& signer : governance.signers) {
                if (!signer.can_approve() || governance.is_revoked(signer.id)) continue;
                const auto at = signer.org ? std::ranges::find(orgs, *signer.org) : orgs.end();
                const std::size_t label =
                    at == orgs.end() ? orgs.size() - 1 : static_cast<std::size_t>(at - orgs.begin());
                count += label == i ? 1 : 0;
              }
              return count;
            });
          },
          i);
  }

 private:
  template <class F>
  void gauge(observe::Registry& registry, const char* name, const char* help, F read) {
    registry.observed_gauge(name, help, reader(read));
  }
  template <class F>
  void counter(observe::Registry& registry, const char* name, const char* help, F read) {
    registry.observed_counter(name, help, reader(read));
  }

  Shared shared_;
};

}  // namespace

namespace {

constexpr std::uint64_t write_ahead = 1u << 20;

}  // namespace

Options read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data) {
  Options options;
  RegistryOptions& registry = options.registry;
  options.ram = snapshot.get(keys.kind) == StorageKind::ram || snapshot.get(keys.server.amnesia);
  registry.directory = snapshot.get(keys.data_dir);
  if (registry.directory.empty()) registry.directory = data;
  registry.fsync = snapshot.get(keys.fsync);
  registry.checkpoint_interval = snapshot.get(keys.checkpoint_interval);
  registry.segment_size = snapshot.get(keys.segment_size).count;
  registry.ahead = write_ahead;
  registry.slow_sync = snapshot.get(keys.slow_sync);
  registry.retention.policy = snapshot.get(keys.retention_policy);
  registry.retention.max_age = snapshot.get(keys.retention_age);
  registry.retention.max_count = static_cast<std::uint64_t>(snapshot.get(keys.retention_count));
  registry.retention.target_bytes = snapshot.get(keys.retention_bytes).count;
  registry.channel_bound = static_cast<std::size_t>(snapshot.get(keys.channel_bound));
  const auto capacity = [&](std::string_view queue) {
    return static_cast<std::size_t>(serve::queue_capacity(declaration, snapshot, keys.server, queue));
  };
  registry.queues = {.proposals = capacity("proposals"),
                     .approvals = capacity("approvals"),
                     .commits = capacity("commits"),
                     .audit = capacity("audit"),
                     .retention = capacity("retention_cmd")};
  registry.proposals_ttl = snapshot.get(keys.proposals_ttl);
  registry.proposals_max = static_cast<std::uint64_t>(snapshot.get(keys.proposals_max));
  if (options.ram) registry.segment_size = std::min<std::uint64_t>(registry.segment_size, 16u << 20);
  if (options.ram) registry.reserve = registry.ahead = 0;
  return options;
}

std::unique_ptr<serve::Service> make_service(Options options, Keys keys, Publish publish) {
  return std::make_unique<RegistryService>(std::move(options), keys, std::move(publish));
}

}  // namespace cairn::registry
