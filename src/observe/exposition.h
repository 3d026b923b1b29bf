// Exposition: one metric family as Prometheus text (format 0.0.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "observe/metric.h"

namespace cairn::observe {

constexpr std::string_view exposition_type = "text/plain; version=0.0.4; charset=utf-8";

// Writes HELP and TYPE at construction, then each sample it is given. `cell` is the row-major position of the
// label indices.
class Exposition {
 public:
  Exposition(std::string& out, const Declaration& declaration, MetricKind kind);

  void sample(std::size_t cell, std::uint64_t value);
  void sample(std::size_t cell, std::int64_t value);
  void sample(std::size_t cell, double value);
  // `cells`: the sum, then one count per bucket, +Inf last.
  void histogram(std::size_t cell, const Buckets& buckets, std::span<const std::uint64_t> cells);

 private:
  // Name, suffix, labels and a blank; `le` is the last label if not empty.
  void series(std::string_view suffix, std::size_t cell, std::string_view le = {});

  std::string& out_;
  const Declaration& declaration_;
};

}  // namespace cairn::observe
