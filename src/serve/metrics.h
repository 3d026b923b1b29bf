// The metrics every service has, declared once.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/method.h"
#include "observe/metric.h"
#include "runtime/topology.h"

namespace cairn::serve {

// Why a request was turned away before any work, in the order of the checks.
enum class Rejected : std::uint8_t {
  connections,
  head,
  not_ready,
  inflight,
  rate,
  unauthorized,
  body_cap,
  decode,
  queue,
  draining,
  quota,
  degraded,
  decoded_ratio,
  decoded_cap
};
enum class IoOp : std::uint8_t { read, write, commit, connect, rpc };
enum class Repeated : std::uint8_t { restart, upstream, dht };

struct Metrics {
  struct Route {
    std::string_view pattern;
    bool flies = true;  // its requests count as in flight: no health route, and none that stays open
  };
  // `routes` by RouteId; one more label is for requests that matched none.
  Metrics(observe::Registry& registry, std::span<const Route> routes, const ServiceDeclaration& declaration);

  observe::CounterFamily requests;   // route, method, status
  observe::HistogramFamily latency;  // route, method
  observe::GaugeFamily inflight;     // route
  observe::CounterFamily rejected;   // reason
  observe::CounterFamily busy;       // endpoint
  observe::GaugeFamily queue_depth;  // queue
  observe::CounterFamily queue_dropped;
  observe::ObservedFamily pool_waiting;                                                 // lane
  observe::CounterFamily tasks_spawned, tasks_aborted, tasks_canceled, tasks_panicked;  // kind
  observe::GaugeFamily tasks_running;                                                   // task
  observe::CounterFamily io_timeouts;
  observe::CounterFamily backoff_retries;
  observe::CounterFamily bus_lagged;
  observe::CounterFamily config_reload;
  observe::CounterFamily tls_handshakes;  // result

  std::size_t unmatched;  // the route label of a request without a route
  // Routes that differ in their methods only share a label.
  std::size_t label_of(std::size_t route) const noexcept { return labels_[route]; }
  static std::size_t status_index(int status) noexcept;
  std::size_t kind_index(std::string_view kind) const noexcept;

  // The gauge of a declared queue, for those that show its depth often.
  observe::Gauge depth_gauge(std::string_view queue) const noexcept;
  // Shows the depth of a declared queue.
  void show_depth(std::string_view queue, observe::Slot slot, std::uint64_t depth) const noexcept;
  std::uint64_t depth(std::string_view queue) const noexcept;  // as last shown
  void count_dropped(std::string_view queue, observe::Slot slot, std::uint64_t items = 1) const noexcept;
  // Counts one more or one less of a declared task; running() says how many there are.
  void count_running(std::string_view task, observe::Slot slot, std::int64_t more) const noexcept;
  std::uint64_t running(std::string_view task) const noexcept;
  // Calls count_dropped() when this error is the refusal of a declared queue.
  void count_refusal(const Error& error, observe::Slot slot) const noexcept;
  // A declared consumer of a declared broadcast missed `missed` items: the broadcast dropped them.
  void count_lag(std::string_view topic, std::string_view consumer, observe::Slot slot,
                 std::uint64_t missed) const noexcept;

 private:
  std::vector<std::size_t> labels_;  // by RouteId
  std::vector<std::string> kinds_, tasks_, queues_, topics_, consumers_;
  std::vector<std::string_view> refusals_;  // by queue; empty: the queue refuses nothing
};

}  // namespace cairn::serve
