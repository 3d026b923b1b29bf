// A request's body, kept between its arrival and the work on it.
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
