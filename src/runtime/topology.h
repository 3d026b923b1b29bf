// Topology: what runs, waits and is locked in a service, declared once (declaration.h) and rendered for every
// reader: `cairn topology` and /debug/topology print it, the concurrency page is generated from it. The same
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

// The same for the services of one process, in the order of their start: one that calls itself, or one that
// starts later. What is left has no cycle, so that no two can wait for each other, and each can drain after
// those that call it.
std::vector<std::string> find_call_problems(std::span<const ServiceDeclaration* const> services);

// In the order in which they may be taken.
std::vector<LockDeclaration> locks_by_rank(const ServiceDeclaration& service);

// What is so at this moment, where it is known.
struct Live {
  using Number = std::function<std::optional<std::uint64_t>(std::string_view name)>;
  Number depth = nullptr;    // of a queue
  Number running = nullptr;  // how many there are of a task
  Number waiting = nullptr;  // jobs that wait for a thread of a lane
};

std::string format_topology_text(const ServiceDeclaration& service);
// One object; what `live` knows is there as "depth", "running" and "waiting".
std::string format_topology_json(const ServiceDeclaration& service, const Live& live = {});
// A flowchart: tasks, queues and what flows between them.
std::string format_topology_mermaid(const ServiceDeclaration& service);
// docs/concurrency/<service>.md, whole.
std::string format_concurrency_page(const ServiceDeclaration& service);

}  // namespace cairn
