#pragma once

#include <vector>

#include "model/explorer.h"

namespace cairn::model {
void add_queue_models(std::vector<ModelSpec>& to);
}
