// Gateway: one origin before all services. The only public header of the service.
#pragma once

#include <memory>
#include <span>

#include "serve/service.h"
#include "services/gateway/declarations.h"

namespace cairn::gateway {

// The service's route table (routes.cpp).
std::span<const serve::RouteSpec> routes();

// `data`: the gateway's directory; empty: what tenants have used of their quotas is not kept.
FairnessOptions read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data,
                             std::size_t cores);
std::unique_ptr<serve::Service> make_service(Keys keys, FairnessOptions fairness = {});

}  // namespace cairn::gateway
