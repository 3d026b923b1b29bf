// The named models: small programs of production primitives, each with its oracles. A task that acts once, at
// any moment (cancel, close, shut down), is a task of a single step: the explorer puts it everywhere.
//
// Coroutines of a model are members or static functions, never capturing lambdas: a model is where it was
// made until every task has ended.
#pragma once

#include <memory>
#include <vector>

#include "model/explorer.h"

namespace cairn::model {

void add_queue_models(std::vector<ModelSpec>& to);
void add_select_models(std::vector<ModelSpec>& to);
void add_semaphore_models(std::vector<ModelSpec>& to);
void add_value_models(std::vector<ModelSpec>& to);
void add_cancel_models(std::vector<ModelSpec>& to);
void add_flight_models(std::vector<ModelSpec>& to);
void add_lifecycle_models(std::vector<ModelSpec>& to);
void add_mailbox_models(std::vector<ModelSpec>& to);
void add_pool_models(std::vector<ModelSpec>& to);
void add_errand_models(std::vector<ModelSpec>& to);
void add_turn_models(std::vector<ModelSpec>& to);
void add_fair_models(std::vector<ModelSpec>& to);
void add_call_models(std::vector<ModelSpec>& to);   // where http is linked
void add_tls_models(std::vector<ModelSpec>& to);    // the same
void add_h2_models(std::vector<ModelSpec>& to);     // the same
void add_index_models(std::vector<ModelSpec>& to);  // the same
void add_registry_models(std::vector<ModelSpec>& to);
void add_grid_models(std::vector<ModelSpec>& to);
void add_wrong_models(std::vector<ModelSpec>& to);
void add_wrong_registry_models(std::vector<ModelSpec>& to);

// In the order of the report; the models that are wrong on purpose last.
std::vector<ModelSpec> all_models();

template <class M, class... Args>
ModelSpec spec(const char* name, Args... args) {
  return {name, [=](World& world) { return std::make_unique<M>(world, args...); }};
}

// A task that stops `scope` at any moment.
inline Task<> cancels(Scope& scope, StopReason reason) {
  scope.cancel(reason);
  co_return;
}

}  // namespace cairn::model
