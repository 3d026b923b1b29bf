#include "serve/metrics.h"

#include <algorithm>

namespace cairn::serve {
namespace {

// Every status the answers can have, the broken connection's 499, and a last one that must stay zero.
constexpr int statuses[] = {101, 200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405, 408, 409, 410, 412,
                            413, 414, 415, 416, 421, 426, 429, 431, 499, 500, 501, 502, 503, 504, 505, 507};

std::vector<std::string> status_values() {
  std::vector<std::string> values;
  for (int status : statuses) values.push_back(std::to_string(status));
  values.push_back("other");
  return values;
}

std::vector<std::string> method_values() {
  return {std::begin(http::method_names), std::end(http::method_names)};
}

std::vector<std::string> queue_names(const ServiceDeclaration& declaration) {
  std::vector<std::string> names;
  for (const QueueDeclaration& queue : declaration.queues) names.emplace_back(queue.name);
  return names;
}

// The positions of the items for which `stands` is true.
template <class T, class F>
std::vector<std::size_t> still(const T& all, F stands) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (stands(all[i])) found.push_back(i);
  return found;
}

// A queue has no depth metric if another metric covers it, or if it is a watch. A watch also drops nothing.
// Events are sent and logged by turns on one shard; if some are dropped all the same, they are shown then.
bool has_no_depth(const QueueDeclaration& queue) noexcept { return queue.metric != "queue_depth"; }
bool drops_nothing(const QueueDeclaration& queue) noexcept {
  return queue.kind == QueueKind::broadcast ? queue.name == "events" : has_no_depth(queue) || !queue.fills;
}

// Which ends a task can have, by its kind. The service's own tasks can have all of them.
bool is_in(std::string_view kind, std::initializer_list<std::string_view> kinds) noexcept {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}
// Listeners and connections belong to their server. `afterwards` ends before a reader of the metrics could
// see it.
bool is_never_supervised(std::string_view task) noexcept {
  return is_in(task, {"supervisor", "listener", "connection", "conversation", "afterwards"});
}
// The supervisor is not a task itself: it keeps the tasks.
bool is_never_spawned(std::string_view kind) noexcept { return kind == "supervisor"; }
// Listeners end when they are told to. So do the host's tasks, which are told first of all. A worker that is
// left has nothing to wait for: the connection is aborted whose request the worker serves.
bool is_never_aborted(std::string_view kind) noexcept {
  return is_in(kind, {"supervisor", "listener", "host", "worker"});
}
// Connections and workers end with their last request.
bool is_never_cancelled(std::string_view kind) noexcept {
  return is_in(kind, {"supervisor", "listener", "connection", "worker"});
}
// If a listener cannot accept a connection, only that connection is lost.
bool never_panics(std::string_view kind) noexcept { return is_in(kind, {"supervisor", "listener"}); }

std::vector<std::string> task_kinds(const ServiceDeclaration& declaration) {
  std::vector<std::string> kinds;
  for (const TaskDeclaration& task : declaration.tasks)
    if (std::find(kinds.begin(), kinds.end(), task.kind) == kinds.end()) kinds.emplace_back(task.kind);
  return kinds;
}

constexpr auto status_table = [] {
  std::array<std::uint8_t, 600> table{};
  for (auto& at : table) at = static_cast<std::uint8_t>(std::size(statuses));
  for (std::size_t i = 0; i < std::size(statuses); ++i)
    table[static_cast<std::size_t>(statuses[i])] = static_cast<std::uint8_t>(i);
  return table;
}();

}  // namespace

std::size_t Metrics::status_index(int status) noexcept {
  return status >= 0 && status < 600 ? status_table[static_cast<std::size_t>(status)] : std::size(statuses);
}

std::size_t Metrics::kind_index(std::string_view kind) const noexcept {
  auto found = std::find(kinds_.begin(), kinds_.end(), kind);
  CHECK(found != kinds_.end());  // every task is declared
  return static_cast<std::size_t>(found - kinds_.begin());
}

Metrics::Metrics(observe::Registry& registry, std::span<const Route> routes,
                 const ServiceDeclaration& declaration)
    : kinds_(task_kinds(declaration)) {
  std::vector<std::string> patterns;
  std::vector<bool> flies;  // by pattern
  for (const Route& route : routes) {
    const auto known = std::find(patterns.begin(), patterns.end(), route.pattern);
    labels_.push_back(static_cast<std::size_t>(known - patterns.begin()));
    if (known == patterns.end()) {
      patterns.emplace_back(route.pattern);
      flies.push_back(false);
    }
    if (route.flies) flies[labels_.back()] = true;
  }
  unmatched = patterns.size();
  patterns.emplace_back("other");
  flies.push_back(false);
  queues_ = queue_names(declaration);
  for (const QueueDeclaration& queue : declaration.queues) refusals_.push_back(queue.refusal);
  for (const QueueDeclaration& queue : declaration.queues) {
    if (queue.kind != QueueKind::broadcast) continue;
    topics_.emplace_back(queue.name);
    for (const std::string_view consumer : queue.consumers)
      if (!consumer.empty() && std::find(consumers_.begin(), consumers_.end(), consumer) == consumers_.end())
        consumers_.emplace_back(consumer);
  }
  using observe::Print;
  requests =
      registry.counters({"http_requests_total",
                         "Requests answered, by route, method and status.",
                         {{"route", patterns}, {"method", method_values()}, {"status", status_values()}},
                         Print::touched});
  latency = registry.histograms({"request_latency_seconds",
                                 "From the complete head of a request to the end of its answer.",
                                 {{"route", patterns}, {"method", method_values()}},
                                 Print::touched},
                                observe::Buckets::latency());
  inflight = registry.gauges({"inflight_requests",
                              "Requests admitted and not yet answered.",
                              {{"route", patterns}},
                              Print::all,
                              still(flies, [](bool flying) { return !flying; })});
  rejected = registry.counters(
      {"rejected_total",
       "Requests and connections turned away before any work.",
       {{"reason",
         {"connections", "head", "not_ready", "inflight", "rate", "unauthorized", "body_cap", "decode",
          "queue", "draining", "quota", "degraded", "decoded_ratio", "decoded_cap"}}},
       Print::all,
       {10, 11}});  // only where tenants share the limits
  busy = registry.counters(
      {"busy_rejections_total", "Answers `429 busy`.", {{"endpoint", patterns}}, Print::touched});
  const auto queue_declarations = declaration.queues;
  queue_depth = registry.gauges({"queue_depth",
                                 "Items waiting.",
                                 {{"queue", queues_}},
                                 Print::all,
                                 still(queue_declarations, has_no_depth)});
  queue_dropped = registry.counters({"queue_dropped_total",
                                     "Items refused or dropped by a full queue.",
                                     {{"queue", queues_}},
                                     Print::all,
                                     still(queue_declarations, drops_nothing)});
  std::vector<std::string> lanes;
  for (const LaneDeclaration& lane : declaration.lanes) lanes.emplace_back(lane.name);
  if (!lanes.empty())
    pool_waiting = registry.observed_gauges(
        {"pool_waiting", "Jobs of the whole process that wait for a thread of the lane.", {{"lane", lanes}}});
  const auto tasks = [&](const char* name, const char* help, auto never) {
    return registry.counters({name, help, {{"kind", kinds_}}, Print::all, still(kinds_, never)});
  };
  tasks_spawned = tasks("tasks_spawned_total", "Tasks started.", is_never_spawned);
  tasks_aborted = tasks("tasks_aborted_total", "Tasks aborted at the drain deadline.", is_never_aborted);
  tasks_canceled =
      tasks("tasks_canceled_total", "Tasks that ended because they were cancelled.", is_never_cancelled);
  tasks_panicked = tasks("tasks_panicked_total", "Tasks that ended with an exception.", never_panics);
  for (const TaskDeclaration& task : declaration.tasks) tasks_.emplace_back(task.name);
  tasks_running = registry.gauges({"tasks_running",
                                   "Supervised tasks that run.",
                                   {{"task", tasks_}},
                                   Print::all,
                                   still(tasks_, is_never_supervised)});
  using Cells = std::vector<std::size_t>;  // that stand still where no other service is called
  const bool calls = !declaration.calls.front().empty();
  io_timeouts = registry.counters({"io_timeouts_total",
                                   "Waits for a peer or a device that ran out of time.",
                                   {{"op", {"read", "write", "commit", "connect", "rpc"}}},
                                   Print::all,
                                   calls ? Cells{} : Cells{3, 4}});
  backoff_retries = registry.counters({"backoff_retries_total",
                                       "Attempts repeated after a wait.",
                                       {{"op", {"restart", "upstream", "dht"}}},
                                       Print::all,
                                       calls ? Cells{} : Cells{1, 2}});
  bus_lagged = registry.counters({"bus_lagged_total",
                                  "Events a slow consumer missed.",
                                  {{"topic", topics_}, {"consumer", consumers_}},
                                  Print::touched});
  config_reload = registry.counters({"config_reload_total",
                                     "Reloads of the configuration.",
                                     {{"result", {"applied", "unchanged", "rejected"}}}});
  tls_handshakes =
      registry.counters({"tls_handshakes_total",
                         "Handshakes of TLS, by how they ended.",
                         {{"result", {"full", "resumed", "failed", "timed_out", "gave_way", "flooded"}}},
                         Print::touched});
}

namespace {

std::size_t index_in(const std::vector<std::string>& names, std::string_view name) noexcept {
  const auto at = std::find(names.begin(), names.end(), name);
  CHECK(at != names.end());
  return static_cast<std::size_t>(at - names.begin());
}

}  // namespace

observe::Gauge Metrics::depth_gauge(std::string_view queue) const noexcept {
  return queue_depth.at(index_in(queues_, queue));
}

void Metrics::show_depth(std::string_view queue, observe::Slot slot, std::uint64_t depth) const noexcept {
  depth_gauge(queue).set(slot, static_cast<std::int64_t>(depth));
}

std::uint64_t Metrics::depth(std::string_view queue) const noexcept {
  return static_cast<std::uint64_t>(depth_gauge(queue).value());
}

void Metrics::count_dropped(std::string_view queue, observe::Slot slot, std::uint64_t items) const noexcept {
  queue_dropped.at(index_in(queues_, queue)).add(slot, items);
}

void Metrics::count_running(std::string_view task, observe::Slot slot, std::int64_t more) const noexcept {
  tasks_running.at(index_in(tasks_, task)).add(slot, more);
}

std::uint64_t Metrics::running(std::string_view task) const noexcept {
  return static_cast<std::uint64_t>(tasks_running.at(index_in(tasks_, task)).value());
}

void Metrics::count_refusal(const Error& error, observe::Slot slot) const noexcept {
  for (std::size_t i = 0; i < refusals_.size(); ++i)
    if (!refusals_[i].empty() && refusals_[i] == error.context) queue_dropped.at(i).add(slot);
}

void Metrics::count_lag(std::string_view topic, std::string_view consumer, observe::Slot slot,
                        std::uint64_t missed) const noexcept {
  bus_lagged.at(index_in(topics_, topic), index_in(consumers_, consumer)).add(slot, missed);
  queue_dropped.at(index_in(queues_, topic)).add(slot, missed);
}

}  // namespace cairn::serve
