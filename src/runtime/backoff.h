// Backoff: how long to wait before trying again: doubling, capped, jittered.
//   [BO-1] The wait before try n+2 is uniform in [w/2, w] with w = min(cap, base * 2^n).
//   [BO-2] Given the same Random, the same waits.
// Half of each wait is fixed, so that retries never come too fast; half is random, so that many callers do
// not retry at the same moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "base/units.h"
#include "runtime/random.h"

namespace cairn {

struct BackoffPolicy {
  Duration base = Duration::millis(100);
  Duration cap = Duration::seconds(2);
  unsigned tries = 3;  // in all, the first one included; 0: no end
};

class Backoff {
 public:
  explicit Backoff(BackoffPolicy policy) noexcept : policy_(policy) {
    CHECK(policy.base.ns > 0 && policy.base <= policy.cap);
  }

  // The wait before the next try; none when the tries are used up. Call it after each failed try.
  std::optional<Duration> next(Random& random) noexcept {
    ++failed_;
    if (policy_.tries != 0 && failed_ >= policy_.tries) return std::nullopt;
    const Duration wait = window_;
    window_ = std::min(policy_.cap, window_ * 2);
    const std::int64_t half = wait.ns / 2;
    return Duration::nanos(
        half + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(wait.ns - half) + 1)));
  }
  unsigned failed() const noexcept { return failed_; }
  void reset() noexcept {
    window_ = policy_.base;
    failed_ = 0;
  }

 private:
  BackoffPolicy policy_;
  Duration window_ = policy_.base;
  unsigned failed_ = 0;
};

}  // namespace cairn
