#include "serve/sizes.h"

#include <algorithm>
#include <string>
#include <variant>

namespace cairn::serve {
namespace {

std::uint64_t capacity_of(const QueueDeclaration& queue, const config::Snapshot& snapshot,
                          const config::ServerKeys& keys) {
  for (const auto& [name, key] : keys.queues)
    if (name == queue.name) return static_cast<std::uint64_t>(snapshot.get(key));
  if (const auto found = snapshot.schema().names().find(queue.key); found != snapshot.schema().names().end())
    return static_cast<std::uint64_t>(std::get<std::int64_t>(snapshot.at(found->second.index).value));
  return queue.capacity;
}

}  // namespace

std::vector<config::Sized> queue_sizes(const ServiceDeclaration& declaration) {
  std::vector<config::Sized> sizes;
  for (const QueueDeclaration& queue : declaration.queues)
    if (has_key_of_its_own(queue))
      sizes.push_back({std::string(queue.name), static_cast<std::int64_t>(queue.capacity)});
  return sizes;
}

std::vector<config::Sized> pool_sizes() {
  std::vector<config::Sized> sizes;
  for (const LaneDeclaration& lane : lane_declarations)
    sizes.push_back({std::string(lane.name), static_cast<std::int64_t>(lane.threads)});
  return sizes;
}

std::vector<QueueDeclaration> configured_queues(const ServiceDeclaration& declaration,
                                                const config::Snapshot& snapshot,
                                                const config::ServerKeys& keys) {
  std::vector<QueueDeclaration> queues(declaration.queues.begin(), declaration.queues.end());
  for (QueueDeclaration& queue : queues) queue.capacity = capacity_of(queue, snapshot, keys);
  return queues;
}

std::uint64_t queue_capacity(const ServiceDeclaration& declaration, const config::Snapshot& snapshot,
                             const config::ServerKeys& keys, std::string_view queue) {
  const auto row = std::ranges::find(declaration.queues, queue, &QueueDeclaration::name);
  CHECK(row != declaration.queues.end());
  return capacity_of(*row, snapshot, keys);
}

LaneSizes configured_lanes(const config::Snapshot& snapshot, const config::ProcessKeys& keys) {
  LaneSizes sizes = sizes_of(lane_declarations);
  for (std::size_t i = 0; i < lane_count; ++i)
    for (const auto& [name, key] : keys.pools)
      if (name == lane_declarations[i].name) sizes[i].threads = static_cast<unsigned>(snapshot.get(key));
  return sizes;
}

}  // namespace cairn::serve
