// Sizes: queues and the pool's lanes, as a service's declaration and its configuration say together. A
// capacity is declared once; its key, what runs and /debug/topology follow.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/server_keys.h"
#include "config/snapshot.h"
#include "runtime/lane.h"

namespace cairn::serve {

// What the keys are made with.
std::vector<config::Sized> queue_sizes(const ServiceDeclaration& declaration);
std::vector<config::Sized> pool_sizes();

// The rows of all queues, with their capacities as configured.
std::vector<QueueDeclaration> configured_queues(const ServiceDeclaration& declaration,
                                                const config::Snapshot& snapshot,
                                                const config::ServerKeys& keys);
// One of them. The name must be declared.
std::uint64_t queue_capacity(const ServiceDeclaration& declaration, const config::Snapshot& snapshot,
                             const config::ServerKeys& keys, std::string_view queue);
LaneSizes configured_lanes(const config::Snapshot& snapshot, const config::ProcessKeys& keys);

}  // namespace cairn::serve
