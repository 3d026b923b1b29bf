// Breaker: stops asking a peer that fails, and finds out when it is well again. A pure state machine over
// instants: no clock, no timer, no task.
//
//   closed     every request may begin. It opens after `consecutive` failures in a row, or when at least
//              `min_requests` ended within `window` and `error_ratio` of them failed.
//   open       none may begin until the cooldown is over.
//   half open  at most `half_open_probes` may be out at once that hold a place. So many successes close it;
//              one failure opens it again, with twice the cooldown, up to `cooldown_max`.
//
// A request that may last gives its place back before its end (Try::give_place_back): what lasts would keep
// the breaker half open for as long.
//
//   [BK-1] An open breaker lets nothing begin before its cooldown is over, and then something.
//   [BK-2] A request that began before the last change of state changes nothing by its end.
//   [BK-3] A request that ends without a verdict gives its place as a probe back.
//   [BK-4] A request is counted once, however late: what it did for or against the peer is its one verdict.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace cairn {

struct BreakerPolicy {
  Duration window = Duration::seconds(10);
  double error_ratio = 0.5;
  std::uint32_t min_requests = 20;
  std::uint32_t consecutive = 5;
  Duration cooldown = Duration::seconds(1), cooldown_max = Duration::seconds(30);
  std::uint32_t half_open_probes = 3;
};

class Breaker {
 public:
  enum class State : std::uint8_t { closed, open, half_open };
  enum class Verdict : std::uint8_t {
    good,
    failed,
    wrong,  // an answer came, but not a right one: it counts in the ratio, not in the row of failures
    none    // the peer had no part in the end: the client left, or its own time was too short
  };

  // A request that may begin. It ends exactly once, at the latest with this object, which its breaker
  // outlives.
  class Try {
   public:
    Try(Try&& other) noexcept
        : breaker_(std::exchange(other.breaker_, nullptr)),
          epoch_(other.epoch_),
          probe_(other.probe_),
          holds_(other.holds_) {}
    Try& operator=(Try&&) = delete;
    ~Try() {
      if (breaker_ != nullptr) breaker_->end(*this, Verdict::none, Instant{});
    }
    void end(Verdict verdict, Instant now) noexcept {
      if (Breaker* breaker = std::exchange(breaker_, nullptr)) breaker->end(*this, verdict, now);
    }
    // Its end may be far away: as a probe, it takes no place from others any more. Its verdict counts all the
    // same.
    void give_place_back() noexcept {
      if (breaker_ != nullptr) breaker_->give_place_back(*this);
    }

   private:
    friend class Breaker;
    Try(Breaker& breaker, std::uint64_t epoch, bool probe) noexcept
        : breaker_(&breaker), epoch_(epoch), probe_(probe), holds_(probe) {}
    Breaker* breaker_;
    std::uint64_t epoch_;
    bool probe_;
    bool holds_;  // a place of a probe
  };

  explicit Breaker(BreakerPolicy policy = {}) noexcept : policy_(policy), cooldown_(policy.cooldown) {
    CHECK(policy.window.ns >= static_cast<std::int64_t>(steps) && policy.half_open_probes > 0 &&
          policy.consecutive > 0);
  }
  Breaker(const Breaker&) = delete;
  Breaker& operator=(const Breaker&) = delete;

  // A cooldown that runs is kept; the next one is counted anew if the policy has others.
  void set_policy(const BreakerPolicy& policy) noexcept;

  // Nothing: the request must not be sent.
  std::optional<Try> try_begin(Instant now) noexcept;
  State state() const noexcept { return state_; }
  // Of an open breaker: when the next request may begin.
  Instant opens_until() const noexcept { return until_; }
  // It lets nothing begin at this moment. An open one whose cooldown is over waits only for a request to
  // come.
  bool is_shut(Instant now) const noexcept { return state_ == State::open && now < until_; }

 private:
  // The window moves in steps of a tenth of it.
  static constexpr std::size_t steps = 10;
  struct Step {
    std::uint32_t ended = 0, failed = 0;
  };

  void end(Try& one, Verdict verdict, Instant now) noexcept;
  void give_place_back(Try& one) noexcept;
  void count(bool failed, Instant now) noexcept;
  bool is_too_much() const noexcept;
  void change(State state) noexcept;
  void open(Instant now) noexcept;

  BreakerPolicy policy_;
  State state_ = State::closed;
  std::uint64_t epoch_ = 0;  // changes of state so far
  std::uint32_t in_row_ = 0;
  std::uint32_t probing_ = 0, proved_ = 0;
  Duration cooldown_;
  Instant until_{};
  std::int64_t step_ = 0;  // the newest, counted from the clock's zero
  std::array<Step, steps> window_{};
};

}  // namespace cairn
