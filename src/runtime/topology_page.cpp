// The drawings and the page generated from the declarations.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/topology.h"

namespace cairn {
namespace {

std::string label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"')
      out += "#quot;";
    else
      out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string names(const NameList& list) {
  std::string out;
  for (const std::string_view name : list) {
    if (name.empty()) break;
    if (!out.empty()) out += ", ";
    out += cell(name);
  }
  return out.empty() ? "none" : out;
}

// Node names of the flowchart: a task's place in the list, or the place of an outsider's first mention.
class Nodes {
 public:
  explicit Nodes(const ServiceDeclaration& service) : service_(service) {}

  std::string of(std::string_view name) {
    for (std::size_t i = 0; i < service_.tasks.size(); ++i)
      if (service_.tasks[i].name == name) return fmt::format("t{}", i);
    auto found = std::find(outside_.begin(), outside_.end(), name);
    if (found == outside_.end()) found = outside_.insert(outside_.end(), name);
    return fmt::format("o{}", found - outside_.begin());
  }
  const std::vector<std::string_view>& outside() const { return outside_; }

 private:
  const ServiceDeclaration& service_;
  std::vector<std::string_view> outside_;
};

void add_table(std::string& out, std::initializer_list<std::string_view> heads,
               const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) {
    out += "None.\n\n";
    return;
  }
  for (const std::string_view head : heads) out += fmt::format("| {} ", head);
  out += "|\n";
  for (std::size_t i = 0; i < heads.size(); ++i) out += "|---";
  out += "|\n";
  for (const auto& row : rows) {
    for (const std::string& field : row) out += fmt::format("| {} ", field);
    out += "|\n";
  }
  out += "\n";
}

std::string flow_in_words(const ServiceDeclaration& service) {
  std::string out;
  for (const QueueDeclaration& queue : service.queues)
    out += fmt::format("* `{}` ({}, {}): {} to {}; when full: {}.\n", queue.name, name_of(queue.kind),
                       queue.capacity, names(queue.producers), names(queue.consumers), name_of(queue.policy));
  return out.empty() ? "No queue is declared.\n" : out;
}

std::string shutdown_sequence(const ServiceDeclaration& service) {
  const std::string drain = format_duration(service.drain);
  std::string out =
      fmt::format("```mermaid\nsequenceDiagram\n  participant O as operator\n  participant S as {}\n",
                  label(service.name));
  for (std::size_t i = 0; i < service.tasks.size(); ++i)
    out += fmt::format("  participant T{} as {}\n", i, label(service.tasks[i].name));
  out += "  O->>S: SIGTERM or SIGINT\n  S->>S: readyz answers 503, watch shutdown becomes draining\n";
  out += fmt::format("  S->>S: wait for admitted work, at most {}\n", drain);
  for (std::size_t i = 0; i < service.tasks.size(); ++i)
    out += fmt::format("  S->>T{}: cancel, reason draining\n", i);
  for (std::size_t i = 0; i < service.tasks.size(); ++i) out += fmt::format("  T{}-->>S: ended\n", i);
  out += "  alt everything ended in time\n    S-->>O: exit 0\n";
  out += "  else time is up or second signal\n    S->>S: abort what is left, name what still lives\n";
  out += "    S-->>O: exit 10\n  end\n```\n\n";
  out += fmt::format(
      "On the first signal the service stops admitting: readiness turns 503 and the watch `shutdown` becomes "
      "draining. "
      "Work that was admitted has until {} after the signal. When none is left, the tasks are cancelled with "
      "the reason "
      "draining ({}) and joined by their owners. If all of it ends in time the process leaves with 0. When "
      "the time is "
      "up, or on a second signal, what is left is aborted, shields included; what still lives is logged by "
      "name, and within a second the process has left with 10, whatever hangs.\n\n",
      drain, service.tasks.empty() ? "there are none" : "in the order drawn");
  return out;
}

constexpr std::string_view state_diagram =
    "```mermaid\nstateDiagram-v2\n"
    "  [*] --> running\n"
    "  running --> draining: first signal\n"
    "  draining --> stopped: all work and tasks ended\n"
    "  draining --> aborting: time is up or second signal\n"
    "  aborting --> stopped: tasks ended or one second passed\n"
    "  stopped --> [*]\n```\n\n"
    "The state only moves forward. In `running` work is admitted. In `draining` new work is refused and "
    "admitted work "
    "goes on, including its own further steps. In `aborting` every wait ends at once, shielded ones too. In "
    "`stopped` "
    "nothing of the service runs, except what was named as still alive.\n";

}  // namespace

std::string format_topology_mermaid(const ServiceDeclaration& service) {
  std::string out = "flowchart LR\n";
  Nodes nodes(service);
  for (const TaskDeclaration& task : service.tasks)
    out += fmt::format("  {}[\"{}<br/>{}\"]\n", nodes.of(task.name), label(task.name), label(task.count));
  std::string edges;
  for (std::size_t i = 0; i < service.queues.size(); ++i) {
    const QueueDeclaration& queue = service.queues[i];
    out +=
        fmt::format("  q{}([\"{}<br/>{} {}\"])\n", i, label(queue.name), name_of(queue.kind), queue.capacity);
    for (const std::string_view name : queue.producers)
      if (!name.empty()) edges += fmt::format("  {} --> q{}\n", nodes.of(name), i);
    for (const std::string_view name : queue.consumers)
      if (!name.empty()) edges += fmt::format("  q{} --> {}\n", i, nodes.of(name));
  }
  for (std::size_t i = 0; i < nodes.outside().size(); ++i)
    out += fmt::format("  o{}((\"{}\"))\n", i, label(nodes.outside()[i]));
  return out + edges;
}

std::string format_concurrency_page(const ServiceDeclaration& service) {
  std::string out = fmt::format(
      "# Concurrency of {}\n\nOwner: {}  \nLast reviewed: {}\n\n"
      "{}. This page is generated from the declarations of the service: change those, not this page.\n\n",
      service.name, service.owner, service.last_reviewed, service.purpose);
  out += fmt::format("## Topology\n\n```mermaid\n{}```\n\n", format_topology_mermaid(service));
  out += "Boxes are tasks, rounded boxes are queues, circles are outside the service. In words:\n\n";
  out += flow_in_words(service) + "\n";

  std::vector<std::vector<std::string>> rows;
  for (const TaskDeclaration& task : service.tasks)
    rows.push_back({fmt::format("`{}`", task.name), cell(task.kind), cell(task.count),
                    std::string(name_of(task.criticality)), cell(task.does), cell(task.owner)});
  out += "## Tasks\n\n";
  add_table(out, {"task", "kind", "count", "criticality", "does", "joined by"}, rows);

  rows.clear();
  for (const QueueDeclaration& queue : service.queues)
    rows.push_back({fmt::format("`{}`", queue.name), std::string(name_of(queue.kind)),
                    std::to_string(queue.capacity), names(queue.producers), names(queue.consumers),
                    std::string(name_of(queue.policy)),
                    queue.metric.empty() ? std::string("none") : fmt::format("`{}`", queue.metric)});
  out += "## Queues\n\n";
  add_table(out, {"queue", "kind", "capacity", "producers", "consumers", "when full", "metric"}, rows);

  rows.clear();
  for (const LockDeclaration& lock : locks_by_rank(service))
    rows.push_back({std::to_string(lock.rank), fmt::format("`{}`", lock.name), cell(lock.guards)});
  out += "## Locks\n\nTaken in rising rank only, and never across a suspension.\n\n";
  add_table(out, {"rank", "lock", "guards"}, rows);

  rows.clear();
  for (const LaneDeclaration& lane : service.lanes)
    rows.push_back({fmt::format("`{}`", lane.name), std::to_string(lane.threads), std::to_string(lane.queue),
                    cell(lane.does)});
  out +=
      "## Pool\n\nWhat blocks is done by threads of the process, which its services share. A full lane is "
      "waited for until the deadline.\n\n";
  add_table(out, {"lane", "threads", "may wait", "does"}, rows);

  rows.clear();
  for (const WriterDeclaration& writer : service.writers)
    rows.push_back({cell(writer.resource), cell(writer.writer)});
  out += "## Writers\n\nEach mutable resource has one writer.\n\n";
  add_table(out, {"resource", "writer"}, rows);

  out += "## Shutdown\n\n" + shutdown_sequence(service);
  out += "### States\n\n";
  out += state_diagram;
  return out;
}

}  // namespace cairn
