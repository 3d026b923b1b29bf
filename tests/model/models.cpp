#include "model/models.h"

namespace cairn::model {

std::vector<ModelSpec> all_models() {
  std::vector<ModelSpec> models;
  add_queue_models(models);
  add_select_models(models);
  add_semaphore_models(models);
  add_value_models(models);
  add_cancel_models(models);
  add_flight_models(models);
  add_lifecycle_models(models);
  add_mailbox_models(models);
  add_pool_models(models);
  add_errand_models(models);
  add_turn_models(models);
  add_fair_models(models);
#ifdef CAIRN_MODEL_HTTP
  add_call_models(models);
  add_tls_models(models);
  add_h2_models(models);
  add_index_models(models);
#endif
  add_registry_models(models);
  add_grid_models(models);
  add_wrong_models(models);
  add_wrong_registry_models(models);
  return models;
}

}  // namespace cairn::model
