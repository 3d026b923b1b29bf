// Pace: whether a peer reads what is sent to it fast enough. It is judged only while a write has to wait for
// the peer.
//
// The measure is the number of bytes that the peer's kernel has acknowledged. A writable socket says too
// little, because the kernel reports room only once a third of its buffer is free. Acknowledgements come in
// bursts as well: a kernel whose buffer was full reports room when a sixteenth of it is free, or one segment
// (64 KiB over loopback). A steady reader of 2 KiB/s needs half a minute for a segment. So the bytes that a
// peer took beyond the lowest rate are saved for the windows that follow, up to a bound.
//   [PC-1] A peer that has taken less than the lowest rate over a window, and has nothing saved, is too slow.
//   [PC-2] A peer that stops is found too slow after at most 2 + windows_saved_max windows.
//   [PC-3] A peer above the lowest rate is never too slow, if its kernel acknowledges something within that
//         many windows.
//   [PC-4] A peer that has vanished under an open stream is noticed, even if no write ever has to wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/units.h"

namespace cairn::http {

class Pace {
 public:
  static constexpr std::int64_t windows_saved_max = 6;

  // `counts_reads`: bytes count as acknowledged only once the peer has read them, and in large pieces (a Unix
  // socket). Such a peer starts with the largest saving.
  explicit Pace(bool counts_reads) noexcept : trusted_(counts_reads) {}

  void sent(std::size_t bytes) noexcept { sent_ += static_cast<std::int64_t>(bytes); }
  // Another answer begins. The peer is not charged for the time between the two.
  void start_over() noexcept { until_ = {}; }

  // A write has to wait: it waits at most until this instant, and then asks too_slow().
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

  // For a stream that writes so little that no write ever waits: has the peer acknowledged nothing for
  // `span`, although bytes are outstanding?
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
  // The silence begins at the first look at the earliest. What is outstanding then may be more than was sent
  // here: TLS sends records of its own.
  std::int64_t silent_at_ = std::numeric_limits<std::int64_t>::min();
  Instant silent_since_{};
};

}  // namespace cairn::http
