// What is kept of a request's body between its taking and the work.
#pragma once

#include <string>

#include "services/registry/shard.h"
#include "store/budget.h"

namespace cairn::registry {

struct RegistryShard::Incoming {
  std::string document;
  store::BudgetHold bytes;
  bool cbor = false;
};

}  // namespace cairn::registry
