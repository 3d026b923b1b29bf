#include "services/gateway/pressure.h"

namespace cairn::gateway {

// `kept`: what the load would ask for if it were a little higher.
void Pressure::Steady::follow(Level asked, Level kept, Instant now) noexcept {
  if (asked >= level) {
    level = asked;
    calm_since = Instant::never();
    return;
  }
  if (kept >= level) {
    calm_since = Instant::never();
    return;
  }
  if (calm_since == Instant::never()) calm_since = now;
  if (now - calm_since < calm) return;
  level = static_cast<Level>(static_cast<int>(level) - 1);
  calm_since = Instant::never();
}

void Pressure::sample(const Load& load, Instant now) noexcept {
  const Load higher{load.queue / lower, load.memory / lower, load.upstreams / lower};
  all_.follow(level_of(load), level_of(higher), now);
  rest_.follow(of_the_rest(load), of_the_rest(higher), now);
  level_.store(all_.level, std::memory_order_relaxed);
  common_.store(rest_.level, std::memory_order_relaxed);
}

}  // namespace cairn::gateway
