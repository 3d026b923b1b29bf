// What the first shard does beside requests: samples the load, keeps the quotas, shows what is shed.
#include "runtime/wait.h"
#include "services/gateway/shard.h"

namespace cairn::gateway {
namespace {

constexpr Duration probe_period = Duration::seconds(1), save_period = Duration::seconds(10),
                   start_period = Duration::millis(10),
                   gate_period = Duration::millis(100);  // workers of other shards come and go

}  // namespace

Task<> GatewayShard::probe(Call call) {
  Shard& shard = context_.machine.shard;
  // The workers of the other shards begin in their own time; whoever asks meanwhile should not be told that
  // some are gone.
  const Fairness& shared = shared_.fairness;
  for (Instant end = shard.now() + probe_period;
       shared.scheduler->slots() < shared.options.workers * shared.options.worker_slots && shard.now() < end;
       show_gates())
    if (!co_await sleep_for(call, start_period)) co_return;
  for (Instant due = shard.now() + probe_period;; due = std::max(due, shard.now()) + probe_period) {
    while (shard.now() < due) {
      if (!co_await sleep_until(call, std::min(due, shard.now() + gate_period))) co_return;
      shared.show_slots(context_.health);
    }
    sample();
    Sample taken;
    Fairness& fairness = shared_.fairness;
    taken.at = shard.wall();
    taken.waiting = fairness.scheduler->waiting();
    taken.out = fairness.scheduler->out();
    taken.slots = fairness.scheduler->slots();
    taken.lag = shard.precise_now() - due;
    taken.level = fairness.pressure.level();
    const auto look = [&taken](const Tenant& tenant) {
      taken.least_deficit = std::min(taken.least_deficit, tenant.turns.deficit());
    };
    for (Tenants::Walk walk; fairness.tenants.go_on(walk, look);) co_await yield(call);
    context_.metrics.show_depth("metrics_tick", context_.slot, history_->ticks.depth());
    if (!co_await history_->ticks.send(call.within(probe_period), taken) && call.stopped()) co_return;
  }
}

void GatewayShard::sample() {
  Fairness& fairness = shared_.fairness;
  Pressure::Load load;
  load.queue = static_cast<double>(context_.work.taken()) / static_cast<double>(context_.work.limit());
  load.memory = static_cast<double>(context_.machine.slab.bytes_in_use() * context_.shards) /
                static_cast<double>(fairness.options.memory_bytes);
  load.upstreams = shared_.shut->part(context_.machine.shard.now());
  const Pressure::Level before = fairness.pressure.level();
  fairness.pressure.sample(load, context_.machine.shard.now());
  if (const Pressure::Level level = fairness.pressure.level(); level != before)
    context_.log.warn("the pressure has changed",
                      {{"level", static_cast<int>(level)}, {"before", static_cast<int>(before)}});
  show_gates();
}

void GatewayShard::show_gates() {
  const Fairness& fairness = shared_.fairness;
  fairness.show_slots(context_.health);
  const Pressure::Level level = fairness.pressure.level();
  serve::Health& health = context_.health;
  health.set("accepts-changes", level < Pressure::Level::changes);
  health.set("accepts-expensive-reads", level < Pressure::Level::expensive_reads);
  health.set("accepts-requests", level < Pressure::Level::all);
}

Task<> GatewayShard::keep_quotas(Call call) {
  for (;;) {
    if (!co_await sleep_for(call, save_period)) co_return;
    co_await save_quotas(call);
  }
}

// Nothing is written while no quota counts bytes.
Task<> GatewayShard::save_quotas(Call call) {
  Shard& shard = context_.machine.shard;
  const QuotaRecord record = record_quotas(shared_.fairness.tenants, day_of(shard.wall()));
  if (record == saved_) co_return;
  const auto saved = co_await replace_quota_file(call.within(save_period), &context_.machine.disk,
                                                 shared_.fairness.options.quota_path, encode_quota(record));
  if (saved)
    saved_ = record;
  else
    context_.log.warn("what tenants have used could not be kept", {{"why", saved.error().context}});
}

Task<> GatewayShard::load_quotas(Call call) {
  auto record = co_await read_quota_file(call, &context_.machine.disk, shared_.fairness.options.quota_path);
  if (record)
    restore_quotas(shared_.fairness.tenants, *record);
  else if (record.error().code != ErrorCode::not_found)
    context_.log.warn("what tenants have used is forgotten", {{"why", record.error().context}});
}

}  // namespace cairn::gateway
