// The named models: small programs of production primitives, each with its oracles.
#pragma once

#include <span>

#include "model/explorer.h"

namespace cairn::model {

std::span<const ModelSpec> all_models();
const ModelSpec* find_model(std::string_view name);

}  // namespace cairn::model
