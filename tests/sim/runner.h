// Runner: many seeds in a few processes at a time; what they found, together.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "scenario.h"

namespace cairn::simulator {

struct Finding {
  std::uint64_t seed;
  std::string what;
};

struct Totals {
  std::uint64_t seeds = 0, completed = 0, steps = 0, reruns = 0;
  double simulated_seconds = 0, cpu_seconds = 0, wall_seconds = 0;
  std::vector<Finding> findings;
  std::set<std::string> missed;  // probes that no seed has reached

  double requests_per_second() const {
    return simulated_seconds > 0 ? static_cast<double>(completed) / simulated_seconds : 0;
  }
  // Simulated hours in an hour of one core.
  double speed() const { return cpu_seconds > 0 ? simulated_seconds / cpu_seconds : 0; }
};

// Runs `count` seeds of one kind from `first` on in `jobs` processes. One in twenty is run again by a fresh
// process of `program`, and must give the same hash. A seed that ends its process is a finding like any
// other.
Totals run_seeds(const Kind& kind, std::uint64_t first, std::uint64_t count, unsigned jobs,
                 const std::string& program);

// The hash that a fresh process of `program` gives for the seed; empty: it failed.
std::string hash_of_fresh_process(const std::string& program, const Kind& kind, std::uint64_t seed,
                                  const std::string& more);

std::string to_json(const Totals& totals);

}  // namespace cairn::simulator
