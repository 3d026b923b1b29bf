// ShutWays: until when the ways to the upstreams are shut, on all shards. Each shard tells of its own ways;
// who samples the load asks for all.
//   [UW-1] A way counts as shut only while its breaker's cooldown runs. After that it waits for a request: a
//         load that sheds requests because of it would keep it so for ever.
//
// Atomics: numbers that publish no other memory, so the order is relaxed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/units.h"
#include "services/gateway/upstream.h"

namespace cairn::gateway {

class ShutWays {
 public:
  explicit ShutWays(std::size_t shards) : until_(shards) {
    for (auto& of_shard : until_)
      for (auto& until : of_shard) until.store(unknown, std::memory_order_relaxed);
  }

  // There is such a way, and it is shut until then; a time that has passed: it is not.
  void tell(std::size_t shard, std::size_t upstream, Instant until) noexcept {
    until_[shard][upstream].store(until.ns, std::memory_order_relaxed);
  }
  // The part of the ways that are shut; 0 where there is none.
  double part(Instant now) const noexcept {
    std::size_t known = 0, shut = 0;
    for (const auto& of_shard : until_)
      for (const auto& each : of_shard) {
        const std::int64_t until = each.load(std::memory_order_relaxed);
        known += until != unknown ? 1 : 0;
        shut += until > now.ns ? 1 : 0;
      }
    return known == 0 ? 0 : static_cast<double>(shut) / static_cast<double>(known);
  }

 private:
  static constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::min();
  std::vector<std::array<std::atomic<std::int64_t>, upstream_names.size()>> until_;
};

}  // namespace cairn::gateway
