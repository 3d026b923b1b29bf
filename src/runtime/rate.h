// RateLimiter: at most `rate` takes a second, process-wide, by the generic cell rate algorithm.
//   In any span of length s at most rate + rate * s takes succeed (burst = rate), plus at most `beyond`
//         more for takes that pass it.
//   A refused take changes nothing; retry_after is the exact time after which it would succeed if no
//         other take came between.
// The whole state is one number: the time by which all takes so far are paid for.
//
// Atomic: that number, compare-and-swap; it publishes no other memory, so the order is relaxed. Shards'
// clocks may differ by a loop turn; an older `now` is merely a little stricter.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/units.h"
#include "runtime/shard.h"

namespace cairn {

struct RateVerdict {
  bool taken = false;
  Duration retry_after{};  // zero when taken
  explicit operator bool() const noexcept { return taken; }
};

class RateLimiter {
 public:
  explicit RateLimiter(std::uint64_t per_second) noexcept : rate_(per_second) {
    CHECK(per_second > 0 && per_second <= rate_max);
    if (Shard* shard = current_shard()) identity_ = shard->new_identity();
  }
  RateLimiter(const RateLimiter&) = delete;
  RateLimiter& operator=(const RateLimiter&) = delete;

  // `beyond` allows a larger burst, not a higher rate: takes made ahead delay all later ones.
  RateVerdict try_take(Instant now, std::uint64_t beyond = 0) noexcept {
    touch();
    const auto rate = static_cast<std::int64_t>(rate_.load(std::memory_order_relaxed));
    // Rounded up, so that rounding never allows more than the rate.
    const std::int64_t interval = (second + rate - 1) / rate;
    const std::int64_t horizon = now.ns + interval * (rate + static_cast<std::int64_t>(beyond));
    std::int64_t paid_until = paid_until_.load(std::memory_order_relaxed);
    for (;;) {
      const std::int64_t next = std::max(paid_until, now.ns) + interval;
      if (next > horizon) return {false, Duration::nanos(next - horizon)};
      if (paid_until_.compare_exchange_weak(paid_until, next, std::memory_order_relaxed)) return {true, {}};
    }
  }

  // Whether more than half of the burst is used now.
  bool half_used(Instant now) const noexcept {
    const auto rate = static_cast<std::int64_t>(rate_.load(std::memory_order_relaxed));
    const std::int64_t interval = (second + rate - 1) / rate;
    return paid_until_.load(std::memory_order_relaxed) - now.ns > interval * rate / 2;
  }
  // Takes effect with the next take; takes under the old rate are not paid for anew.
  void set_rate(std::uint64_t per_second) noexcept {
    CHECK(per_second > 0 && per_second <= rate_max);
    touch();
    rate_.store(per_second, std::memory_order_relaxed);
  }
  std::uint64_t rate() const noexcept { return rate_.load(std::memory_order_relaxed); }

  static constexpr std::uint64_t rate_max = 1'000'000'000;

 private:
  static constexpr std::int64_t second = 1'000'000'000;
  void touch() const noexcept {
    if (Shard* shard = current_shard()) shard->trace(identity_, Access::write);
  }

  std::uint64_t identity_ = 0;
  std::atomic<std::uint64_t> rate_;
  std::atomic<std::int64_t> paid_until_{0};
};

}  // namespace cairn
