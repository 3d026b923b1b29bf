#include "services/gateway/service.h"

#include "serve/sizes.h"
#include "services/gateway/shard.h"

namespace cairn::gateway {
namespace {

class GatewayService final : public serve::Service {
 public:
  GatewayService(Keys keys, FairnessOptions fairness)
      : shared_{.keys = keys, .fairness = Fairness(std::move(fairness))} {}

  const ServiceDeclaration& declaration() const override { return gateway::declaration; }
  std::span<const serve::RouteSpec> routes() const override { return GatewayShard::routes(); }
  std::unique_ptr<serve::ServiceShard> make_shard(serve::ShardContext context) override {
    return std::make_unique<GatewayShard>(shared_, context);
  }

  std::vector<serve::GateDeclaration> gates() const override {
    return {std::begin(gateway::gates), std::end(gateway::gates)};
  }

  void declare_metrics(observe::Registry& registry) override {
    shared_.metrics.declare(registry);
    shared_.fairness.declare_metrics(registry);
    registry.observed_gauge("gateway_prober_lag_seconds", "How late the prober woke for its newest sample.",
                            [this] {
                              const std::vector<Sample> newest = shared_.samples.newest(1);
                              return newest.empty() ? 0.0 : newest.front().lag.to_seconds();
                            });
  }

 private:
  Shared shared_;
};

BreakerPolicy read_policy(const config::Snapshot& snapshot, const BreakerKeys& keys) {
  const auto count = [&](config::Key<std::int64_t> key) {
    return static_cast<std::uint32_t>(snapshot.get(key));
  };
  BreakerPolicy policy;
  policy.window = snapshot.get(keys.window);
  policy.error_ratio = snapshot.get(keys.error_ratio);
  policy.min_requests = count(keys.min_requests);
  policy.consecutive = count(keys.consecutive);
  policy.cooldown = snapshot.get(keys.cooldown);
  policy.half_open_probes = count(keys.half_open_probes);
  return policy;
}

// A request in flight has at most one connection to an upstream, so that none of them has to wait for one.
// What lasts takes a place of `max_conns`: half of these may end at one upstream, and the rest is left for
// others. Nobody waits: a connection that a stream has may not come back for hours.
serve::PeerLimits limits_of(const config::Snapshot& snapshot, const config::ServerKeys& keys,
                            std::size_t shards) {
  const auto inflight = static_cast<std::size_t>(snapshot.get(keys.max_inflight));
  const auto places = static_cast<std::size_t>(snapshot.get(keys.max_conns));
  return {.connections = inflight + inflight / serve::Shares::beyond_part,
          .lasting = (places + 2 * shards - 1) / (2 * shards),
          .waiting = 0};
}

}  // namespace

GatewayShard::GatewayShard(Shared& shared, serve::ShardContext context)
    : shared_(shared),
      context_(context),
      turns_(shared.fairness.make_turns(context_)),
      reception_(shared.fairness, context_) {
  if (context_.slot == 0) shared_.shut = std::make_unique<ShutWays>(context_.shards);
  for (std::size_t i = 0; i < ways_.size(); ++i)
    ways_[i].open(context_.peers.find(upstream_names[i]), static_cast<Upstream>(i), shared_.metrics,
                  *shared_.shut, context_);
}

Task<Result<>> GatewayShard::start(Call call) {
  apply(*context_.bus.config.value());
  if (context_.slot != 0) co_return Result<>{};
  Supervisor& tasks = context_.tasks;
  FairScheduler& scheduler = *shared_.fairness.scheduler;
  history_ = std::make_unique<History>(context_.machine.shard, static_cast<std::size_t>(ticks_capacity),
                                       shared_.samples);
  if (!shared_.fairness.options.quota_path.empty()) {
    co_await load_quotas(call);
    CO_TRY_VOID(tasks.start("quota-keeper", [this](Call c) { return keep_quotas(c); }));
  }
  show_gates();
  CO_TRY_VOID(tasks.start("scheduler", [&scheduler](Call c) { return scheduler.run(c); }));
  CO_TRY_VOID(tasks.start("history", [this](Call c) { return history_->run(c); }));
  CO_TRY_VOID(tasks.start("prober", [this](Call c) { return probe(c); }));
  co_return Result<>{};
}

Task<> GatewayShard::stop(Call call) {
  if (context_.slot == 0 && !shared_.fairness.options.quota_path.empty()) co_await save_quotas(call);
  if (!co_await turns_->settle(call)) context_.log.warn("requests are still in the queue at the end", {});
}

void GatewayShard::apply(const config::Snapshot& snapshot) {
  verify_ = snapshot.get(shared_.keys.verify);
  const serve::PeerLimits limits = limits_of(snapshot, shared_.keys.server, context_.shards);
  for (Way& way : ways_) {
    way.set_policy(read_policy(snapshot, shared_.keys.breaker));
    way.set_limits(limits);
  }
  if (context_.slot != 0) return;
  Fairness& fairness = shared_.fairness;
  fairness.tenants.set_rules(
      read_rules(snapshot, shared_.keys.fairness),
      [&](Tenant& tenant, std::uint32_t weight) { fairness.scheduler->set_weight(tenant.turns, weight); });
}

FairnessOptions read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data,
                             std::size_t cores) {
  FairnessOptions options;
  options.rules = read_rules(snapshot, keys.fairness);
  options.drr_enabled = snapshot.get(keys.fairness.enabled);
  options.workers = static_cast<std::size_t>(snapshot.get(keys.fairness.workers));
  if (options.workers == 0) options.workers = std::min<std::size_t>(8, cores);
  options.worker_slots = static_cast<std::uint64_t>(snapshot.get(keys.fairness.worker_slots));
  options.sched = serve::queue_capacity(declaration, snapshot, keys.server, "sched");
  options.memory_bytes = snapshot.get(keys.server.memory_bytes).count;
  if (!data.empty() && !snapshot.get(keys.server.amnesia)) options.quota_path = data + "/quota";
  return options;
}

std::unique_ptr<serve::Service> make_service(Keys keys, FairnessOptions fairness) {
  return std::make_unique<GatewayService>(keys, std::move(fairness));
}

}  // namespace cairn::gateway
