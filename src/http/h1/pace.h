// Pace: whether a peer takes what is sent to it fast enough, judged only while a write has to wait for it.
//
// What counts is what the peer's kernel has acknowledged. That the socket becomes writable says too little:
// the kernel tells of room only once a third of its buffer is free. Acknowledgements come in bursts as well:
// a kernel whose buffer was full tells of room when a sixteenth of it is free, or one segment (64 KiB over
// loopback), which a steady reader of 2 KiB/s needs half a minute for. So what a peer took beyond the lowest
// rate counts for the windows that follow, up to a bound.
//   [PC-1] A peer that has taken less than the lowest rate over a window, and has nothing saved, is too slow.
//   [PC-2] A peer that stops is found too slow after at most 2 + windows_saved_max windows.
//   [PC-3] One above the lowest rate is never too slow, if its kernel acknowledges something within as many.
//   [PC-4] A peer that has vanished under an open stream is noticed, although nothing is written that would
//   wait.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace cairn::http {

class Pace {
 public:
  static constexpr std::int64_t windows_saved_max = 6;

  // `counts_reads`: what the peer has not read is not acknowledged (a Unix socket, and in large pieces). It
  // is trusted with all it could have saved.
  explicit Pace(bool counts_reads) noexcept : trusted_(counts_reads) {}

  void sent(std::size_t bytes) noexcept { sent_ += static_cast<std::int64_t>(bytes); }
  // What follows is another answer: the time between them was not the peer's.
  void start_over() noexcept { until_ = {}; }

  // A write has to wait: until when at most, before too_slow() is asked.
  Instant judged_at(Instant now, Duration window) noexcept {
    if (until_ <= now) until_ = now + window;
    return until_;
  }
  // The window has ended and the write still waits. `least` is what the window demands. If the peer keeps up,
  // the next window begins.
  bool too_slow(std::uint64_t unacknowledged, std::uint64_t least) noexcept {
    const auto demanded = static_cast<std::int64_t>(least);
    if (trusted_) saved_ = windows_saved_max * demanded;
    trusted_ = false;
    const std::int64_t acknowledged = sent_ - static_cast<std::int64_t>(unacknowledged);
    const std::int64_t taken = saved_ + std::max<std::int64_t>(acknowledged - acknowledged_, 0);
    acknowledged_ = acknowledged;
    if (taken < demanded) return true;
    saved_ = std::min(taken - demanded, windows_saved_max * demanded);
    until_ = {};
    return false;
  }

  // Of a stream that writes so little that no write ever waits: has nothing been acknowledged for `span`,
  // although there is something?
  bool vanished(Instant now, std::uint64_t unacknowledged, Duration span) noexcept {
    const std::int64_t acknowledged = sent_ - static_cast<std::int64_t>(unacknowledged);
    if (unacknowledged == 0 || acknowledged > silent_at_) {
      silent_at_ = acknowledged;
      silent_since_ = now;
    }
    return now - silent_since_ >= span;
  }

 private:
  bool trusted_;
  std::int64_t sent_ = 0;
  std::int64_t acknowledged_ = 0;  // when it was last looked
  std::int64_t saved_ = 0;
  Instant until_{};
  std::int64_t silent_at_ = -1;
  Instant silent_since_{};
};

}  // namespace cairn::http
