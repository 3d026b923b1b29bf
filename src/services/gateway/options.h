// What the configuration says of fairness: its keys, and their values in the types that the gateway uses.
#pragma once

#include <string>

#include "config/schema.h"
#include "config/snapshot.h"
#include "services/gateway/fairness.h"

namespace cairn::gateway {

struct FairnessKeys {
  config::Key<bool> enabled;
  config::Key<std::int64_t> default_quantum;
  config::Key<std::vector<std::string>> tenant_quanta;
  config::Key<std::int64_t> workers, worker_slots;
  config::Key<std::int64_t> rps;
  config::Key<Bytes> bytes_per_day;
  config::Key<std::vector<std::string>> tenant_quotas;
};
FairnessKeys declare_fairness_keys(config::Schema& schema);

// Those that a reload may change.
TenantRules read_rules(const config::Snapshot& snapshot, const FairnessKeys& keys);

}  // namespace cairn::gateway
