// Sizes of queues and of the pool's lanes, from a service's declaration and its configuration together. A
// capacity is declared once; its key, the running queue and /debug/topology follow.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/server_keys.h"
#include "config/snapshot.h"
#include "runtime/lane.h"

namespace cairn::serve {

// The sizes from which the configuration keys are made.
std::vector<config::Sized> queue_sizes(const ServiceDeclaration& declaration);
std::vector<config::Sized> pool_sizes();

// The rows of all queues, with their capacities as configured.
std::vector<QueueDeclaration> configured_queues(const ServiceDeclaration& declaration,
                                                const config::Snapshot& snapshot,
                                                const config::ServerKeys& keys);
// The capacity of one queue. The name must be declared.
std::uint64_t queue_capacity(const ServiceDeclaration& declaration, const config::Snapshot& snapshot,
                             const config::ServerKeys& keys, std::string_view queue);
LaneSizes configured_lanes(const config::Snapshot& snapshot, const config::ProcessKeys& keys);

}  // namespace cairn::serve
