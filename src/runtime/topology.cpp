#include "runtime/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "runtime/guarded.h"

namespace cairn {
namespace {

// The names before the first empty place.
std::span<const std::string_view> used(const NameList& names) {
  const auto end = std::find(names.begin(), names.end(), std::string_view());
  return {names.begin(), end};
}

std::string joined(const NameList& names) {
  if (used(names).empty()) return "none";
  return fmt::format("{}", fmt::join(used(names), ", "));
}

// A few lines of JSON do not justify a dependency of the runtime on the codecs.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string quoted(const NameList& names) {
  std::string out = "[";
  for (const std::string_view name : used(names)) {
    if (out.size() > 1) out += ',';
    out += quoted(name);
  }
  return out + ']';
}

template <class T, class F>
std::string json_array(std::span<const T> items, F format_item) {
  std::string out = "[";
  for (const T& item : items) {
    if (out.size() > 1) out += ',';
    out += format_item(item);
  }
  return out + ']';
}

template <class T>
void find_repeated(std::span<const T> items, std::string_view what, std::vector<std::string>& problems) {
  std::set<std::string_view> seen;
  for (const T& item : items) {
    if (item.name.empty()) problems.push_back(fmt::format("a {} has no name", what));
    if (!seen.insert(item.name).second)
      problems.push_back(fmt::format("{} {} is declared twice", what, item.name));
  }
}

void find_queue_problems(const QueueDeclaration& queue, std::vector<std::string>& problems) {
  const auto add = [&](std::string_view text) {
    problems.push_back(fmt::format("queue {} {}", queue.name, text));
  };
  if (queue.capacity == 0) add("has no bound");
  if (used(queue.producers).empty()) add("has no producer");
  if (used(queue.consumers).empty()) add("has no consumer");
  // A watch always has one value: there is nothing to measure.
  if (queue.metric.empty() && queue.kind != QueueKind::watch) add("has no metric");
  switch (queue.kind) {
    case QueueKind::mpsc:
      if (queue.policy == OverflowPolicy::keep_latest)
        add("is an mpsc: it refuses, waits or drops the oldest");
      break;
    case QueueKind::broadcast:
      if (queue.policy != OverflowPolicy::drop_oldest) add("is a broadcast: it drops the oldest");
      break;
    case QueueKind::watch:
      if (queue.policy != OverflowPolicy::keep_latest) add("is a watch: it keeps the latest");
      if (queue.capacity > 1) add("is a watch: its capacity is 1");
      break;
  }
}

}  // namespace

std::vector<std::string> find_topology_problems(const ServiceDeclaration& service) {
  std::vector<std::string> problems;
  find_repeated(service.tasks, "task", problems);
  find_repeated(service.queues, "queue", problems);
  find_repeated(service.locks, "lock", problems);
  for (const TaskDeclaration& task : service.tasks)
    if (task.kind.empty() || task.count.empty() || task.does.empty() || task.owner.empty())
      problems.push_back(fmt::format("task {} needs kind, count, owner and what it does", task.name));
  for (const QueueDeclaration& queue : service.queues) find_queue_problems(queue, problems);
  find_repeated(service.lanes, "lane", problems);
  for (const LaneDeclaration& lane : service.lanes)
    if (lane.threads == 0 || lane.queue == 0)
      problems.push_back(fmt::format("lane {} has no bound", lane.name));
  std::set<unsigned> ranks;
  for (const LockDeclaration& lock : service.locks) {
    if (lock.rank >= lock_rank::pool_lane)
      problems.push_back(fmt::format("lock {} has a rank of the runtime", lock.name));
    if (!ranks.insert(lock.rank).second)
      problems.push_back(fmt::format("lock {} shares its rank {}", lock.name, lock.rank));
  }
  std::set<std::string_view> written;
  for (const WriterDeclaration& writer : service.writers)
    if (!written.insert(writer.resource).second)
      problems.push_back(fmt::format("{} has more than one writer", writer.resource));
  return problems;
}

std::vector<std::string> find_call_problems(std::span<const ServiceDeclaration* const> services) {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < services.size(); ++i)
    for (const std::string_view callee : services[i]->calls)
      for (std::size_t j = i; !callee.empty() && j < services.size(); ++j)
        if (services[j]->name == callee)
          problems.push_back(
              fmt::format("{} calls {}, which must come before it", services[i]->name, callee));
  return problems;
}

std::vector<LockDeclaration> locks_by_rank(const ServiceDeclaration& service) {
  std::vector<LockDeclaration> locks(service.locks.begin(), service.locks.end());
  std::sort(locks.begin(), locks.end(),
            [](const auto& a, const auto& b) { return std::tie(a.rank, a.name) < std::tie(b.rank, b.name); });
  return locks;
}

std::string format_topology_text(const ServiceDeclaration& service) {
  std::string out = fmt::format("{}: {}\n\ntasks\n", service.name, service.purpose);
  auto to = std::back_inserter(out);
  for (const TaskDeclaration& task : service.tasks)
    fmt::format_to(to, "  {:<20} {:<12} {:<18} {:<10} joined by {}: {}\n", task.name, task.kind, task.count,
                   name_of(task.criticality), task.owner, task.does);
  out += "\nqueues\n";
  for (const QueueDeclaration& queue : service.queues)
    fmt::format_to(to, "  {:<20} {:<10} {:>6}  {:<20} {} -> {}  [{}]\n", queue.name, name_of(queue.kind),
                   queue.capacity, name_of(queue.policy), joined(queue.producers), joined(queue.consumers),
                   queue.metric);
  out += "\nlocks, in the order they may be taken\n";
  for (const LockDeclaration& lock : locks_by_rank(service))
    fmt::format_to(to, "  {:>2} {:<20} {}\n", lock.rank, lock.name, lock.guards);
  if (!service.lanes.empty()) out += "\npool\n";
  for (const LaneDeclaration& lane : service.lanes)
    fmt::format_to(to, "  {:<20} {:>3} threads, {:>4} waiting  {}\n", lane.name, lane.threads, lane.queue,
                   lane.does);
  if (!service.calls.front().empty()) fmt::format_to(to, "\ncalls\n  {}\n", joined(service.calls));
  out += "\nwriters\n";
  for (const WriterDeclaration& writer : service.writers)
    fmt::format_to(to, "  {:<28} {}\n", writer.resource, writer.writer);
  return out;
}

std::string format_topology_json(const ServiceDeclaration& service, const Live& live) {
  const auto now = [](std::string_view what, const Live::Number& number, std::string_view name) {
    const auto is = number ? number(name) : std::nullopt;
    return is ? fmt::format(",{}:{}", quoted(what), *is) : std::string();
  };
  const auto task_json = [&](const TaskDeclaration& task) {
    return fmt::format(R"({{"name":{},"kind":{},"count":{},"criticality":{},"does":{},"owner":{}{}}})",
                       quoted(task.name), quoted(task.kind), quoted(task.count),
                       quoted(name_of(task.criticality)), quoted(task.does), quoted(task.owner),
                       now("running", live.running, task.name));
  };
  const auto queue_json = [&](const QueueDeclaration& queue) {
    return fmt::format(
        R"({{"name":{},"kind":{},"capacity":{},"producers":{},"consumers":{},"policy":{},"metric":{}{}}})",
        quoted(queue.name), quoted(name_of(queue.kind)), queue.capacity, quoted(queue.producers),
        quoted(queue.consumers), quoted(name_of(queue.policy)), quoted(queue.metric),
        now("depth", live.depth, queue.name));
  };
  const auto lock_json = [](const LockDeclaration& lock) {
    return fmt::format(R"({{"name":{},"rank":{},"guards":{}}})", quoted(lock.name), lock.rank,
                       quoted(lock.guards));
  };
  const auto lane_json = [&](const LaneDeclaration& lane) {
    return fmt::format(R"({{"name":{},"threads":{},"queue":{},"does":{}{}}})", quoted(lane.name),
                       lane.threads, lane.queue, quoted(lane.does), now("waiting", live.waiting, lane.name));
  };
  const auto writer_json = [](const WriterDeclaration& writer) {
    return fmt::format(R"({{"resource":{},"writer":{}}})", quoted(writer.resource), quoted(writer.writer));
  };
  return fmt::format(
      R"({{"service":{},"purpose":{},"owner":{},"last_reviewed":{},"drain":{},"calls":{},"tasks":{},"queues":{},"locks":{},"lanes":{},"writers":{}}})",
      quoted(service.name), quoted(service.purpose), quoted(service.owner), quoted(service.last_reviewed),
      cairn::quoted(format_duration(service.drain)), quoted(service.calls),
      json_array(service.tasks, task_json), json_array(service.queues, queue_json),
      json_array(service.locks, lock_json), json_array(service.lanes, lane_json),
      json_array(service.writers, writer_json));
}

}  // namespace cairn
