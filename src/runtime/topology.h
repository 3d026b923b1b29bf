// Topology: what runs, waits and is locked in a service, declared once and rendered for every reader.
//
// The declarations are constexpr data beside the service's code; supervisor, queues and locks are made from
// them, `cairn topology` and /debug/topology print them, the concurrency page is generated from them.
// The same declarations always render to the same bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace cairn {

// Up to eight names; the rest stays empty. `.producers = {"accept", "repair"}`.
using NameList = std::array<std::string_view, 8>;

enum class QueueKind : std::uint8_t { mpsc, broadcast, watch };
// What happens to an item that finds no room.
enum class OverflowPolicy : std::uint8_t { refuse, wait_until_deadline, drop_oldest, keep_latest };
// What it means when a task stays down.
enum class Criticality : std::uint8_t { essential, degrading, optional };

struct QueueDeclaration {
  std::string_view name;
  QueueKind kind = QueueKind::mpsc;
  std::uint64_t capacity = 0;
  // Names of declared tasks; any other name is something outside the service.
  NameList producers{};
  NameList consumers{};
  OverflowPolicy policy = OverflowPolicy::refuse;
  std::string_view metric;
  std::string_view refusal = {};  // what those are told whom it refuses, where that is an answer's
  bool fills = true;              // false: there are fewer who could wait in it than it has places
};

struct TaskDeclaration {
  std::string_view name;
  std::string_view kind;   // the label of tasks_*_total{kind}
  std::string_view count;  // "1", "one per shard", "one per connection"
  Criticality criticality = Criticality::essential;
  std::string_view does;
  std::string_view owner;  // who joins it
};

struct LockDeclaration {
  std::string_view name;
  unsigned rank = 0;
  std::string_view guards;
};

struct WriterDeclaration {
  std::string_view resource;
  std::string_view writer;
};

struct ServiceDeclaration {
  std::string_view name;
  std::string_view purpose;
  std::string_view owner;
  std::string_view last_reviewed;  // YYYY-MM-DD
  Duration drain = Duration::seconds(3);
  std::span<const TaskDeclaration> tasks{};
  std::span<const QueueDeclaration> queues{};
  std::span<const LockDeclaration> locks{};
  std::span<const WriterDeclaration> writers{};
  NameList calls{};  // other services, by name
};

constexpr std::string_view name_of(QueueKind kind) noexcept {
  constexpr std::array<std::string_view, 3> names{"mpsc", "broadcast", "watch"};
  return names[static_cast<std::size_t>(kind)];
}
constexpr std::string_view name_of(OverflowPolicy policy) noexcept {
  constexpr std::array<std::string_view, 4> names{"refuse", "wait until deadline", "drop oldest",
                                                  "keep latest"};
  return names[static_cast<std::size_t>(policy)];
}
constexpr std::string_view name_of(Criticality criticality) noexcept {
  constexpr std::array<std::string_view, 3> names{"essential", "degrading", "optional"};
  return names[static_cast<std::size_t>(criticality)];
}

// One sentence per contradiction: a name used twice, an unbounded queue, a policy that its kind cannot
// have, a rank used twice or not below the runtime's own, a missing word. Empty: fine.
std::vector<std::string> find_topology_problems(const ServiceDeclaration& service);

// The same for the services of one process, in the order of their start: one that calls itself, or one that
// starts later. What is left has no cycle, so that no two can wait for each other, and each can drain after
// those that call it.
std::vector<std::string> find_call_problems(std::span<const ServiceDeclaration* const> services);

// In the order in which they may be taken.
std::vector<LockDeclaration> locks_by_rank(const ServiceDeclaration& service);

// The depth of a queue at this moment, where known.
using LiveDepth = std::function<std::optional<std::uint64_t>(std::string_view queue)>;

std::string format_topology_text(const ServiceDeclaration& service);
// One object; with `depth`, each queue it knows has a "depth".
std::string format_topology_json(const ServiceDeclaration& service, const LiveDepth& depth = nullptr);
// A flowchart: tasks, queues and what flows between them.
std::string format_topology_mermaid(const ServiceDeclaration& service);
// docs/concurrency/<service>.md, whole.
std::string format_concurrency_page(const ServiceDeclaration& service);

}  // namespace cairn
