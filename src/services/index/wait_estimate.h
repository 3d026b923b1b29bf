// WaitEstimate: how long a job would wait behind those that wait already, so that one that cannot be done in
// time is refused at once instead of queued. A value of one shard, without a clock.
//   [WE-1] A job is refused only when there is a mean, and the wait that it leads to is longer than what is
//         left of the job's deadline.
//   [WE-2] The mean lies between the shortest and the longest service time that was counted, and forgets the
//         older ones: each counts for an eighth of what the times before it left.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace cairn::index {

class WaitEstimate {
 public:
  // Of one job, from the turn that it got to its end.
  void count(Duration service) noexcept {
    if (service.ns < 0) return;
    mean_ = known_ ? Duration::nanos(mean_.ns + (service.ns - mean_.ns) / weight) : service;
    known_ = true;
  }
  Duration mean() const noexcept { return mean_; }

  // jobs ahead * mean / slots. `ahead`: jobs that wait. Without a slot nothing will ever be done.
  Duration expected(std::uint64_t ahead, std::uint64_t slots) const noexcept {
    if (ahead == 0) return {};
    if (slots == 0) return longest;
    const auto product = static_cast<unsigned __int128>(mean_.ns) * ahead / slots;
    return product > static_cast<unsigned __int128>(longest.ns)
               ? longest
               : Duration::nanos(static_cast<std::int64_t>(product));
  }
  bool fits(std::uint64_t ahead, std::uint64_t slots, Duration left) const noexcept {
    return !known_ || expected(ahead, slots) <= left;
  }

 private:
  static constexpr std::int64_t weight = 8;
  static constexpr Duration longest{INT64_MAX};
  Duration mean_{};
  bool known_ = false;
};

}  // namespace cairn::index
