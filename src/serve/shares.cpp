#include "serve/shares.h"

#include <algorithm>

#include "base/mix.h"

namespace cairn::serve {
namespace {

constexpr unsigned time_bits = 48;
constexpr std::uint64_t time_mask = (std::uint64_t{1} << time_bits) - 1;

std::uint64_t milliseconds(Instant now) noexcept {
  return static_cast<std::uint64_t>(now.ns / 1'000'000) & time_mask;
}

}  // namespace

std::uint32_t Shares::slot_of(const Address& address) const noexcept {
  const std::uint64_t hash = mix(address[1] ^ seed_, 0xd6e8feb86659fd93u ^ seed_);
  return static_cast<std::uint32_t>(mix(address[0] ^ hash, 0x9e3779b97f4a7c15u ^ seed_) % slots);
}

Shares::Asker Shares::ask(const Address& address, Instant now) noexcept {
  const std::uint32_t slot = slot_of(address);
  const std::uint64_t me = std::uint64_t{slot + 1} << time_bits;
  const std::uint64_t stamp = me | milliseconds(now);
  const std::uint64_t last = last_.load(std::memory_order_relaxed);
  const bool again = (last & ~time_mask) == me;
  const std::uint64_t another = again ? other_.load(std::memory_order_relaxed) : last;
  // Written only when something has changed, so that while one address asks alone the cache line stays
  // unchanged.
  if (!again) other_.store(last, std::memory_order_relaxed);
  if (last != stamp) last_.store(stamp, std::memory_order_relaxed);
  const bool is_other = another != 0 && (another & ~time_mask) != me;
  const auto age =
      static_cast<std::int64_t>(stamp & time_mask) - static_cast<std::int64_t>(another & time_mask);
  return {slot, is_other && age <= contest.to_millis()};
}

bool Shares::try_enter(const Asker& asker, Permits& all) noexcept {
  if (!asker) return all.try_take();
  Slot& slot = of(asker.slot);
  const std::uint64_t limit = all.limit();
  const bool within = slot.inside.load(std::memory_order_relaxed) < std::max<std::uint64_t>(1, limit / 2);
  if (!within && asker.contested) return false;
  if (!all.try_take(within ? limit / beyond_part : 0)) return false;
  slot.inside.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Shares::leave(std::uint32_t slot, Permits& all) noexcept {
  if (slot != Asker::none) CHECK(of(slot).inside.fetch_sub(1, std::memory_order_relaxed) != 0);
  all.give();
}

// The slot counts against its half even while the half does not bind, up to the point where the half is used
// up. So as soon as another address asks, everything that was taken before counts.
RateVerdict Shares::try_take(const Asker& asker, RateLimiter& all, Instant now) noexcept {
  if (!asker) return all.try_take(now);
  const std::uint64_t rate = all.rate();
  const auto half = static_cast<std::int64_t>(std::max<std::uint64_t>(1, rate / 2));
  const std::int64_t interval = (1'000'000'000 + half - 1) / half;
  const std::int64_t horizon = now.ns + interval * half;
  std::atomic<std::int64_t>& paid_until = of(asker.slot).paid_until;
  std::int64_t paid = paid_until.load(std::memory_order_relaxed);
  const std::int64_t next = std::max(paid, now.ns) + interval;
  const bool within = next <= horizon;
  if (!within && asker.contested) return {false, Duration::nanos(next - horizon)};
  const RateVerdict verdict = all.try_take(now, within ? rate / beyond_part : 0);
  if (!verdict) return verdict;
  while (!paid_until.compare_exchange_weak(paid, std::min(std::max(paid, now.ns) + interval, horizon),
                                           std::memory_order_relaxed)) {
  }
  return verdict;
}

}  // namespace cairn::serve
