// TokenBucket: paces a stream of bytes of one shard to a rate, in the order of asking.
//   [K-1] Bytes granted in any span of length s are at most rate * s plus the burst, or plus the largest
//         single take if that is more (a take larger than the burst is granted, but has to wait), plus the
//         bytes given back in that span.
//   [K-2] A take that ends without its grant gives its bytes back to later takes; takes that wait already
//         keep their due times. Over all time no more than the burst plus the rate is granted.
// A take reserves at once and waits for its reservation to be paid: one timer, no queue.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/result.h"
#include "runtime/shard.h"
#include "runtime/waiter.h"

namespace cairn {

class TokenBucket {
 public:
  TokenBucket(Shard& shard, Rate rate, Bytes burst) noexcept
      : shard_(shard), identity_(shard.new_identity()), rate_(rate), burst_(burst) {
    CHECK(rate.bytes_per_second > 0);
    paid_until_ = shard.now().ns - cost(burst.count);  // starts full
  }
  TokenBucket(const TokenBucket&) = delete;
  TokenBucket& operator=(const TokenBucket&) = delete;

  // Waits until `bytes` may pass. Cancel: clean (the bytes are given back).
  class Take : public Waiter {
   public:
    Take(TokenBucket& bucket, const Call& call, std::uint64_t bytes) noexcept
        : Take(bucket, call, bucket.cost(bytes), bucket.reserve(bucket.cost(bytes))) {}
    ~Take() {
      if (!granted_) bucket_.give_back(cost_);
    }
    bool await_ready() noexcept { return !may_wait(); }
    void await_suspend(std::coroutine_handle<> handle) noexcept { begin(handle); }
    [[nodiscard]] Result<> await_resume() noexcept {
      granted_ = why() == Wake::deadline && due_ <= outer_;
      if (granted_) return {};
      return fail(error("token bucket"));
    }

   private:
    Take(TokenBucket& bucket, const Call& call, std::int64_t cost, Instant due) noexcept
        : Waiter(call.by(due)), bucket_(bucket), cost_(cost), due_(due), outer_(call.deadline()) {}
    TokenBucket& bucket_;
    std::int64_t cost_;
    Instant due_;
    Instant outer_;
    bool granted_ = false;
  };
  Take take(const Call& call, std::uint64_t bytes) noexcept { return {*this, call, bytes}; }

  // For takes made from now on.
  void set_rate(Rate rate) noexcept {
    CHECK(rate.bytes_per_second > 0);
    rate_ = rate;
  }
  Rate rate() const noexcept { return rate_; }

 private:
  // Nanoseconds that `bytes` take at the rate, rounded up.
  std::int64_t cost(std::uint64_t bytes) const noexcept {
    const auto rate = rate_.bytes_per_second;
    return static_cast<std::int64_t>((static_cast<unsigned __int128>(bytes) * 1'000'000'000u + rate - 1) /
                                     rate);
  }
  Instant reserve(std::int64_t cost_ns) noexcept {
    shard_.trace(identity_, Access::write);
    const std::int64_t now = shard_.now().ns;
    paid_until_ = std::max(paid_until_, now - cost(burst_.count)) + cost_ns;
    return {std::max(paid_until_, now)};
  }
  void give_back(std::int64_t cost_ns) noexcept {
    shard_.trace(identity_, Access::write);
    paid_until_ -= cost_ns;
  }

  Shard& shard_;
  std::uint64_t identity_;
  Rate rate_;
  Bytes burst_;
  std::int64_t paid_until_ = 0;
};

}  // namespace cairn
