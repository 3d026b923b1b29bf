// A request's body, kept between its arrival and the work on it.
#pragma once

#include <string>

#include "services/index/shard.h"
#include "store/budget.h"

namespace cairn::index {

struct IndexShard::Incoming {
  std::string document;
  store::BudgetHold bytes;
};

}  // namespace cairn::index
