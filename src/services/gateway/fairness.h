// Fairness: what the shards of a gateway share to divide it among tenants: the tenants, the scheduler of
// their turns, the pressure, and their metrics.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/fair_turns.h"
#include "serve/service.h"
#include "services/gateway/pressure.h"
#include "services/gateway/tenants.h"

namespace cairn::gateway {

struct FairnessOptions {
  TenantRules rules;
  bool drr_enabled = true;
  std::size_t workers = 1;
  std::uint64_t worker_slots = 16;
  std::size_t sched = 512;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  std::string quota_path = {};  // empty: what was used is forgotten with the process
};

struct FairnessMetrics {
  observe::ObservedFamily deficit, served, depth;  // tenant
  observe::CounterFamily exhaustions;              // tenant
};

class Fairness {
 public:
  explicit Fairness(FairnessOptions with) : options(std::move(with)), tenants(options.rules) {}

  void declare_metrics(observe::Registry& registry);
  // On each shard, on the first one before the others.
  std::unique_ptr<FairTurns> make_turns(const serve::ShardContext& context);

  // Opens and closes the gates of the workers. Of the first shard alone, whose prober does it all the time:
  // two shards that each look and then set could leave what the slower one saw.
  void show_slots(serve::Health& health) const noexcept;

  const FairnessOptions options;
  Tenants tenants;
  Pressure pressure;
  FairnessMetrics metrics;
  // Made on the first shard, whose task runs it.
  std::unique_ptr<FairScheduler> scheduler;
};

}  // namespace cairn::gateway
