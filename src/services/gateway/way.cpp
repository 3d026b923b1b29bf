#include "services/gateway/way.h"

namespace cairn::gateway {
namespace {

std::size_t index(Breaker::State state) noexcept { return static_cast<std::size_t>(state); }

}  // namespace

void Way::open(serve::Peer* peer, Upstream upstream, const Metrics& metrics, ShutWays& shut,
               const serve::ShardContext& context) noexcept {
  peer_ = peer;
  target_ = static_cast<std::size_t>(upstream);
  metrics_ = &metrics;
  shut_ = &shut;
  slot_ = context.slot;
  log_ = &context.log;
  if (peer_ == nullptr) return;
  // The gateway tries again by its own rules.
  peer_->set_retries({.backoff = {.tries = 1}, .total = Instant::never() - Instant{}});
  metrics_->breaker.at(target_, index(shown_)).set(slot_, 1);
  shut_->tell(slot_, target_, Instant{});
}

void Way::set_limits(const serve::PeerLimits& limits) {
  if (peer_ != nullptr) peer_->set_limits(limits);
}

void Way::set_policy(const BreakerPolicy& policy) noexcept {
  breaker_.set_policy(policy);
  show();
}

Result<Way::Try> Way::try_begin(Instant now) noexcept {
  if (peer_->is_inside()) return Try(*this, std::nullopt);
  auto guarded = breaker_.try_begin(now);
  show();
  if (!guarded) return fail(ErrorCode::breaker_open, "the service behind the gateway does not answer");
  return Try(*this, std::move(guarded));
}

void Way::Try::end(Breaker::Verdict verdict, Instant now) noexcept {
  if (!guarded_) return;
  if (verdict == Breaker::Verdict::failed) way_.metrics_->failures.at(way_.target_).add(way_.slot_);
  if (verdict == Breaker::Verdict::wrong) way_.metrics_->mismatches.at(way_.target_).add(way_.slot_);
  guarded_->end(verdict, now);
  guarded_.reset();
  way_.show();
}

void Way::count_retry() const noexcept { metrics_->retries.at(target_).add(slot_); }

void Way::tell_failure(const Error& why, Instant now) noexcept {
  if (const auto held = complaints_.due(now))
    log_->warn("the service behind the gateway gave no answer", {{"service", upstream_names[target_]},
                                                                 {"code", name_of(why.code)},
                                                                 {"why", why.context},
                                                                 {"held_back", *held}});
}

void Way::show() noexcept {
  const Breaker::State state = breaker_.state();
  if (state == shown_) return;
  if (state == Breaker::State::open)
    log_->warn("a service is left alone for now: its breaker is open",
               {{"service", upstream_names[target_]}});
  if (state == Breaker::State::closed)
    log_->info("a service answers again: its breaker is closed", {{"service", upstream_names[target_]}});
  metrics_->breaker.at(target_, index(shown_)).set(slot_, 0);
  metrics_->breaker.at(target_, index(state)).set(slot_, 1);
  shown_ = state;
  shut_->tell(slot_, target_, state == Breaker::State::open ? breaker_.opens_until() : Instant{});
}

}  // namespace cairn::gateway
