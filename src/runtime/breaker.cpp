#include "runtime/breaker.h"

#include <algorithm>

namespace cairn {

void Breaker::set_policy(const BreakerPolicy& policy) noexcept {
  const bool other_steps = policy.window != policy_.window;
  const bool other_cooldown =
      policy.cooldown != policy_.cooldown || policy.cooldown_max != policy_.cooldown_max;
  policy_ = policy;
  // A step's number says nothing where steps have another length.
  if (other_steps) step_ = 0;
  if (other_steps) window_.fill({});
  if (other_cooldown || state_ == State::closed) cooldown_ = policy.cooldown;
  if (state_ == State::half_open && proved_ >= policy.half_open_probes) change(State::closed);
}

std::optional<Breaker::Try> Breaker::try_begin(Instant now) noexcept {
  if (state_ == State::open && now >= until_) change(State::half_open);
  if (state_ == State::open) return std::nullopt;
  const bool probe = state_ == State::half_open;
  if (probe && probing_ + proved_ >= policy_.half_open_probes) return std::nullopt;
  if (probe) ++probing_;
  return Try(*this, epoch_, probe);
}

void Breaker::give_place_back(Try& one) noexcept {
  if (std::exchange(one.holds_, false) && one.epoch_ == epoch_) --probing_;
}

void Breaker::end(Try& one, Verdict verdict, Instant now) noexcept {
  give_place_back(one);
  if (one.epoch_ != epoch_) return;
  if (verdict == Verdict::none) return;
  const bool good = verdict == Verdict::good;
  if (one.probe_) {
    if (!good)
      open(now);
    else if (++proved_ >= policy_.half_open_probes)
      change(State::closed);
    return;
  }
  count(!good, now);
  if (verdict == Verdict::failed) ++in_row_;
  if (good) in_row_ = 0;
  if (!good && (in_row_ >= policy_.consecutive || is_too_much())) open(now);
}

void Breaker::count(bool failed, Instant now) noexcept {
  const std::int64_t length = policy_.window.ns / static_cast<std::int64_t>(steps);
  const std::int64_t newest = (now - Instant{}).ns / length;
  // Each step that has begun since takes the place of the oldest.
  const std::int64_t begun = std::clamp<std::int64_t>(newest - step_, 0, steps);
  for (std::int64_t i = 0; i < begun; ++i) window_[static_cast<std::size_t>(newest - i) % steps] = {};
  step_ = std::max(step_, newest);
  Step& step = window_[static_cast<std::size_t>(step_) % steps];
  ++step.ended;
  if (failed) ++step.failed;
}

bool Breaker::is_too_much() const noexcept {
  std::uint64_t ended = 0, failed = 0;
  for (const Step& step : window_) {
    ended += step.ended;
    failed += step.failed;
  }
  return ended >= policy_.min_requests &&
         static_cast<double>(failed) >= policy_.error_ratio * static_cast<double>(ended);
}

// What was counted before has led to this change, and counts no more.
void Breaker::change(State state) noexcept {
  if (state == State::closed) cooldown_ = policy_.cooldown;
  state_ = state;
  ++epoch_;
  in_row_ = probing_ = proved_ = 0;
  window_.fill({});
}

void Breaker::open(Instant now) noexcept {
  if (state_ == State::half_open) cooldown_ = std::min(policy_.cooldown_max, cooldown_ * 2);
  change(State::open);
  until_ = now + cooldown_;
}

}  // namespace cairn
