// Declarations: a service's tasks, queues and locks, as constexpr data beside the service's code.
//
// The supervisor starts no task that is not declared, queues have the declared bounds unless the
// configuration says otherwise, locks have the declared ranks. `cairn topology`, /debug/topology, the metrics
// and the concurrency page are made from the same rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/units.h"

namespace cairn {

// Up to eight names; the rest stays empty. `.producers = {"accept", "repair"}`.
using NameList = std::array<std::string_view, 8>;

enum class QueueKind : std::uint8_t { mpsc, broadcast, watch };
// What a full queue does with a new item.
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
  std::string_view refusal = {};  // the answer's text when the queue refuses a request
  bool fills = true;  // false: it can never fill up, because fewer tasks wait in it than it has places
  // The key that sets its capacity; empty: `queues.NAME` for an mpsc that can fill up and is not fixed, else
  // no key.
  std::string_view key = {};
  bool fixed = false;
};

// Whether `queues.NAME` sets its capacity.
constexpr bool has_key_of_its_own(const QueueDeclaration& queue) noexcept {
  return queue.kind == QueueKind::mpsc && queue.fills && !queue.fixed && queue.key.empty();
}

struct TaskDeclaration {
  std::string_view name;
  std::string_view kind;   // the label of tasks_*_total{kind}
  std::string_view count;  // "1", "one per shard", "one per connection"
  Criticality criticality = Criticality::essential;
  std::string_view does;
  std::string_view owner;  // the object that joins it
};

struct LockDeclaration {
  std::string_view name;
  unsigned rank = 0;
  std::string_view guards;
};

// A lane of the process's pool, where blocking work goes. All services of a process share it.
struct LaneDeclaration {
  std::string_view name;
  std::uint64_t threads = 1;  // unless `pools.NAME` says otherwise
  std::uint64_t queue = 256;  // jobs that wait for a thread
  std::string_view does;
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
  std::span<const LaneDeclaration> lanes{};
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

}  // namespace cairn
