// Way: how a shard reaches one upstream: the peer, and the breaker before it. A peer of the same process
// needs no breaker: its call reaches it, or the process is gone.
#pragma once

#include <optional>

#include "observe/log.h"
#include "runtime/breaker.h"
#include "serve/peers.h"
#include "serve/service.h"
#include "services/gateway/metrics.h"
#include "services/gateway/shut_ways.h"
#include "services/gateway/upstream.h"

namespace cairn::gateway {

using serve::Lasting;

class Way {
 public:
  // One try of a request, which ends with this object.
  class Try {
   public:
    Try(Way& way, std::optional<Breaker::Try> guarded) noexcept : way_(way), guarded_(std::move(guarded)) {}
    // The first verdict counts. `wrong`: the answer was not what its address says.
    void end(Breaker::Verdict verdict, Instant now) noexcept;
    // Its end may be far away, and others need not wait for it.
    void give_place_back() noexcept {
      if (guarded_) guarded_->give_place_back();
    }

   private:
    Way& way_;
    std::optional<Breaker::Try> guarded_;  // none: the peer is inside
  };

  // `peer`: nullptr, if the configuration names none.
  void open(serve::Peer* peer, Upstream upstream, const Metrics& metrics, ShutWays& shut,
            const serve::ShardContext& context) noexcept;
  void set_policy(const BreakerPolicy& policy) noexcept;

  void set_limits(const serve::PeerLimits& limits);

  serve::Peer* peer() noexcept { return peer_; }
  // `breaker_open`: the upstream must be left alone for now.
  Result<Try> try_begin(Instant now) noexcept;
  void count_retry() const noexcept;
  // For people who look for the cause: at most one line in ten seconds.
  void tell_failure(const Error& why, Instant now) noexcept;

 private:
  void show() noexcept;

  serve::Peer* peer_ = nullptr;
  std::size_t target_ = 0;
  const Metrics* metrics_ = nullptr;
  ShutWays* shut_ = nullptr;
  observe::Slot slot_{};
  const observe::Logger* log_ = nullptr;
  observe::LogEvery complaints_{Duration::seconds(10)};
  Breaker breaker_;
  Breaker::State shown_ = Breaker::State::closed;
};

}  // namespace cairn::gateway
