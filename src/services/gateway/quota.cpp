#include "services/gateway/quota.h"

#include <algorithm>

namespace cairn::gateway {
namespace {

constexpr std::int64_t second = 1'000'000'000;

std::uint64_t whole_seconds(std::int64_t ns) noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, (ns + second - 1) / second));
}

}  // namespace

void Quota::set_limits(const QuotaLimits& limits) noexcept {
  rps_.store(limits.rps, std::memory_order_relaxed);
  bytes_per_day_.store(limits.bytes_per_day, std::memory_order_relaxed);
}

void Quota::begin_day(std::int64_t day) noexcept {
  std::int64_t known = day_.load(std::memory_order_relaxed);
  while (known < day)
    if (day_.compare_exchange_weak(known, day, std::memory_order_relaxed)) {
      used_.store(0, std::memory_order_relaxed);
      return;
    }
}

Quota::Standing Quota::stand_bytes(std::uint64_t limit, WallTime wall) noexcept {
  begin_day(day_of(wall));
  const std::uint64_t used = used_.load(std::memory_order_relaxed);
  const auto left_ms = static_cast<std::uint64_t>(86'400'000 - wall.ms % 86'400'000);
  Standing standing{.has_quota = true, .spent = used >= limit, .limit = limit};
  standing.remaining = limit - std::min(limit, used);
  standing.reset = (left_ms + 999) / 1000;
  standing.retry_after = standing.reset;
  return standing;
}

// The rate is counted as by RateLimiter: one number, the time by which all requests so far are paid for.
Quota::Standing Quota::try_take(Instant now, WallTime wall) noexcept {
  const QuotaLimits limit = limits();
  if (limit.bytes_per_day > 0) {
    const Standing bytes = stand_bytes(limit.bytes_per_day, wall);
    if (bytes.spent || limit.rps == 0) return bytes;
  }
  if (limit.rps == 0) return {};
  const auto rate = static_cast<std::int64_t>(limit.rps);
  const std::int64_t interval = (second + rate - 1) / rate;
  const std::int64_t horizon = now.ns + interval * rate;
  Standing standing{.has_quota = true, .limit = limit.rps};
  std::int64_t paid = paid_until_.load(std::memory_order_relaxed);
  for (;;) {
    const std::int64_t next = std::max(paid, now.ns) + interval;
    standing.spent = next > horizon;
    if (standing.spent) {
      standing.reset = whole_seconds(paid - now.ns);
      standing.retry_after = std::max<std::uint64_t>(1, whole_seconds(next - horizon));
      return standing;
    }
    if (!paid_until_.compare_exchange_weak(paid, next, std::memory_order_relaxed)) continue;
    standing.remaining = static_cast<std::uint64_t>((horizon - next) / interval);
    standing.reset = whole_seconds(next - now.ns);
    return standing;
  }
}

void Quota::count_bytes(std::uint64_t bytes, WallTime wall) noexcept {
  begin_day(day_of(wall));
  used_.fetch_add(bytes, std::memory_order_relaxed);
}

void Quota::restore(std::int64_t day, std::uint64_t used) noexcept {
  begin_day(day);
  if (day_.load(std::memory_order_relaxed) == day) used_.fetch_add(used, std::memory_order_relaxed);
}

}  // namespace cairn::gateway
