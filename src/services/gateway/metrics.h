// The gateway's own metrics.
#pragma once

#include "observe/metric.h"
#include "services/gateway/upstream.h"

namespace cairn::gateway {

struct Metrics {
  observe::GaugeFamily breaker;       // target, state: on how many shards
  observe::CounterFamily retries;     // target
  observe::CounterFamily failures;    // target
  observe::CounterFamily mismatches;  // target

  void declare(observe::Registry& registry) {
    const std::vector<std::string> targets(upstream_names.begin(), upstream_names.end());
    breaker = registry.gauges({"breaker_state",
                               "Shards on which the breaker before this service is in this state.",
                               {{"target", targets}, {"state", {"closed", "open", "half_open"}}}});
    retries = registry.counters({"gateway_retries_total",
                                 "Requests that were sent again, because no answer had come.",
                                 {{"target", targets}}});
    failures = registry.counters({"gateway_upstream_failures_total",
                                  "Tries that failed: no connection, no answer in time, or none that can "
                                  "be understood.",
                                  {{"target", targets}}});
    mismatches = registry.counters({"gateway_mismatches_total",
                                    "Answers that were cut off, because their bytes were not those of "
                                    "their address.",
                                    {{"target", targets}}});
  }
};

}  // namespace cairn::gateway
