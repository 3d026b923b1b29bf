// Storage's own metrics.
#pragma once

#include "observe/metric.h"

namespace cairn::storage {

enum class RangeLabel : std::uint8_t { whole, single, multi };

struct Metrics {
  void declare(observe::Registry& registry);

  observe::HistogramFamily get_latency;  // route, range
  observe::HistogramFamily put_latency;
  observe::CounterFamily bytes_in, bytes_out;
  observe::CounterFamily integrity;   // reason
  observe::CounterFamily decompress;  // reason
  observe::CounterFamily hits, misses;
};

}  // namespace cairn::storage
