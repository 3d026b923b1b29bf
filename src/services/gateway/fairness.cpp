#include "services/gateway/fairness.h"

namespace cairn::gateway {

// A tenant without a name of its own in the metrics is added to the last of them.
void Fairness::declare_metrics(observe::Registry& registry) {
  const observe::Label label{"tenant", tenants.labels()};
  metrics.deficit =
      registry.observed_gauges({"drr_deficit",
                                "Units that a tenant may still use in its round; negative: it has used more.",
                                {label}});
  metrics.served =
      registry.observed_counters({"drr_served_units_total",
                                  "Units of the requests that got a turn, and of what they used beyond that.",
                                  {label}});
  metrics.depth =
      registry.observed_gauges({"gateway_drr_queue_depth", "Requests of a tenant that wait.", {label}});
  metrics.exhaustions = registry.counters(
      {"gateway_quota_exhaustions_total", "Requests refused because a quota was used up.", {label}});
  const auto sum = [this](std::size_t of, auto read) {
    return [this, of, read] {
      double all = 0;
      tenants.for_each_of(of, [&](const Tenant& tenant) { all += static_cast<double>(read(tenant.turns)); });
      return all;
    };
  };
  for (std::size_t i = 0; i < tenants.labels().size(); ++i) {
    metrics.deficit.bind(sum(i, [](const DrrTenant& turns) { return turns.deficit(); }), i);
    metrics.served.bind(sum(i, [](const DrrTenant& turns) { return turns.served(); }), i);
    metrics.depth.bind(
        sum(i, [](const DrrTenant& turns) { return turns.places.load(std::memory_order_relaxed); }), i);
  }
  registry.observed_gauge("gateway_degraded",
                          "What is shed: 0 nothing, 1 changes, 2 expensive reads too, 3 all but health.",
                          [this] { return static_cast<double>(pressure.level()); });
}

void Fairness::show_slots(serve::Health& health) const noexcept {
  const std::uint64_t slots = scheduler->slots();
  health.set("slots", slots > 0);
  health.set("workers", slots >= options.workers * options.worker_slots);
}

std::unique_ptr<FairTurns> Fairness::make_turns(const serve::ShardContext& context) {
  io::Machine& machine = context.machine;
  if (machine.shard.index() == 0) {
    scheduler = std::make_unique<FairScheduler>(machine.shard, machine.mailbox, context.work);
    scheduler->set_enabled(options.drr_enabled);
  }
  // A shard without a worker could start no grant. A worker beyond the configured ones lends no slots.
  const std::size_t index = machine.shard.index(), shards = context.shards;
  const std::size_t workers = options.workers / shards + (index < options.workers % shards ? 1 : 0);
  const FairTurns::Size size{.sched = options.sched,
                             .workers = std::max<std::size_t>(1, workers),
                             .slots_each = workers == 0 ? 0 : options.worker_slots};
  const serve::Metrics& shown = context.metrics;
  const observe::Slot slot = context.slot;
  FairTurns::Told told{.work = [&shown, slot](std::size_t depth) { shown.show_depth("work", slot, depth); },
                       .sched = [&shown, slot](std::size_t depth) { shown.show_depth("sched", slot, depth); },
                       .dropped = [&shown, slot] { shown.count_dropped("sched", slot); }};
  if (index == 0) told.slots = [this, &health = context.health] { show_slots(health); };
  return std::make_unique<FairTurns>(*scheduler, machine.shard, machine.mailbox, size, std::move(told));
}

}  // namespace cairn::gateway
