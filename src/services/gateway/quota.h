// Quota: how many requests a second, and how many bytes of bodies in a day of UTC, one tenant may have.
//   [QU-1] In any span of length s at most rps + rps * s requests are let in.
//   [QU-2] A request is let in while fewer bytes than the day's were used; a body that began may go beyond.
//   [QU-3] The bytes of a day are forgotten when the next one begins. A clock that steps back changes
//   nothing.
//
// Atomics: numbers that publish no other memory, so the order is relaxed; at midnight bytes that two shards
// count at the same moment may go to either day.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.h"

namespace cairn::gateway {

struct QuotaLimits {
  std::uint64_t rps = 0;            // 0: none
  std::uint64_t bytes_per_day = 0;  // 0: none
  friend bool operator==(const QuotaLimits&, const QuotaLimits&) = default;
};

constexpr std::int64_t day_of(WallTime time) noexcept { return time.ms / 86'400'000; }

class Quota {
 public:
  // Where a tenant stands, for RateLimit-*: of its requests where it has such a quota, else of its bytes.
  struct Standing {
    bool has_quota = false;
    bool spent = false;
    std::uint64_t limit = 0, remaining = 0;
    std::uint64_t reset = 0;  // seconds until all of it is there again
    std::uint64_t retry_after = 0;
  };

  explicit Quota(const QuotaLimits& limits) noexcept { set_limits(limits); }
  void set_limits(const QuotaLimits& limits) noexcept;
  QuotaLimits limits() const noexcept {
    return {rps_.load(std::memory_order_relaxed), bytes_per_day_.load(std::memory_order_relaxed)};
  }

  // Takes one request, unless `spent`.
  Standing try_take(Instant now, WallTime wall) noexcept;
  void count_bytes(std::uint64_t bytes, WallTime wall) noexcept;
  std::uint64_t used(std::int64_t day) const noexcept {
    return day_.load(std::memory_order_relaxed) == day ? used_.load(std::memory_order_relaxed) : 0;
  }
  // What an earlier process counted on this day.
  void restore(std::int64_t day, std::uint64_t used) noexcept;

 private:
  void begin_day(std::int64_t day) noexcept;
  Standing stand_bytes(std::uint64_t limit, WallTime wall) noexcept;

  std::atomic<std::uint64_t> rps_{0}, bytes_per_day_{0};
  std::atomic<std::int64_t> paid_until_{0};
  std::atomic<std::int64_t> day_{0};
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace cairn::gateway
