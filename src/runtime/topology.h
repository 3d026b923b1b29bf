// Topology: a service's tasks, queues and locks, declared once (declaration.h) and rendered for every reader.
// `cairn topology` and /debug/topology print it; the concurrency page is generated from it. The same
// declarations always render to the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/declaration.h"

namespace cairn {

// One sentence per contradiction: a name used twice, an unbounded queue, a policy that its kind cannot
// have, a rank used twice or not below the runtime's own, a missing word. Empty: fine.
std::vector<std::string> find_topology_problems(const ServiceDeclaration& service);

// The same for the calls among the services of one process, given in the order of their start. A service that
// calls itself, or one that starts later, is a problem. Without problems the calls have no cycle: no two
// services can wait for each other, and each can drain after its callers.
std::vector<std::string> find_call_problems(std::span<const ServiceDeclaration* const> services);

// In the order in which they may be taken.
std::vector<LockDeclaration> locks_by_rank(const ServiceDeclaration& service);

// Present numbers, where they are known.
struct Live {
  using Number = std::function<std::optional<std::uint64_t>(std::string_view name)>;
  Number depth = nullptr;    // of a queue
  Number running = nullptr;  // instances of a task
  Number waiting = nullptr;  // jobs that wait for a thread of a lane
};

std::string format_topology_text(const ServiceDeclaration& service);
// One object; the numbers of `live` are its "depth", "running" and "waiting".
std::string format_topology_json(const ServiceDeclaration& service, const Live& live = {});
// A flowchart: tasks, queues and the flow of items between them.
std::string format_topology_mermaid(const ServiceDeclaration& service);
// docs/concurrency/<service>.md, whole.
std::string format_concurrency_page(const ServiceDeclaration& service);

}  // namespace cairn
