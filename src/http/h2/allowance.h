// Allowance: how often a peer may do what costs this side work and brings no request further: reset a stream,
// send a frame that only controls. A burst is allowed, then a rate; what brings requests further earns more.
//   [AL-1] Over any span, no more is spent than the burst, the rate over the span, and what was earned in it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace cairn::http::h2 {

class Allowance {
 public:
  constexpr Allowance(std::int64_t burst, std::int64_t per_second) noexcept
      : burst_(burst), per_second_(per_second), left_(burst) {}

  // False: it is spent.
  bool spend(Instant now, std::int64_t count = 1) noexcept {
    const std::int64_t grown = (now - since_).ns / (Duration::seconds(1).ns / per_second_);
    if (grown > 0) {
      left_ = std::min(burst_, left_ + grown);
      since_ = now;
    }
    left_ -= count;
    return left_ >= 0;
  }
  void earn(std::int64_t count) noexcept { left_ = std::min(burst_, left_ + count); }

 private:
  std::int64_t burst_;
  std::int64_t per_second_;
  std::int64_t left_;
  Instant since_{};
};

}  // namespace cairn::http::h2
