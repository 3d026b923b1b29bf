// BodyPace: whether a request's body arrives fast enough, judged while a reader waits for more of it. Every
// carrier of requests applies it.
//   [BP-1] A body without progress, or slower than the lowest rate over a window, is too slow.
#pragma once

#include <cstdint>
#include <optional>

#include "http/h1/server.h"

namespace cairn::http {

class BodyPace {
 public:
  // A reader that has `received` bytes waits for more, until the given instant at most. Nothing: it is too
  // slow already.
  std::optional<Instant> wait_until(Instant now, const ServerOptions& options,
                                    std::uint64_t received) noexcept {
    const Duration window = options.timeouts.read;
    const std::uint64_t least = options.least_bytes(window);
    if (start_ == Instant{}) start_ = now;
    if (now - start_ >= window) {
      if (received - from_ < least) return std::nullopt;
      start_ = now;
      from_ = received;
    }
    until_ = received - from_ < least ? start_ + window : now + window;
    return until_;
  }
  // The wait ended without more, at `now`, by a deadline: that of wait_until(), or the request's own. If a
  // slow client used the request's time up, the client is to blame.
  bool blames_client(Instant now, Instant deadline, const ServerOptions& options,
                     std::uint64_t received) const noexcept {
    const Duration span = now - start_;
    const bool slow =
        span >= Duration::seconds(1) &&
        static_cast<double>(received - from_) < static_cast<double>(options.lowest_rate) * span.to_seconds();
    return deadline > until_ || slow;
  }
  void clear() noexcept { *this = BodyPace(); }

 private:
  // The window over which the lowest rate is demanded, and how many bytes had been received when it began.
  Instant start_{};
  std::uint64_t from_ = 0;
  Instant until_{};
};

}  // namespace cairn::http
