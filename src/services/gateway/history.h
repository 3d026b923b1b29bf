// History: what the gateway was like in the last 15 minutes, second by second. The prober takes samples, and
// waits to send them; the task `history` keeps them.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/mpsc.h"
#include "runtime/task.h"
#include "services/gateway/pressure.h"

namespace cairn::gateway {

struct Sample {
  WallTime at{};
  std::uint64_t waiting = 0, out = 0, slots = 0;
  std::int64_t least_deficit = 0;
  Duration lag{};  // how late the prober woke
  Pressure::Level level = Pressure::Level::none;
};

class History {
 public:
  static constexpr std::size_t kept = 15 * 60;

  History(Shard& shard, std::size_t capacity) : ticks(shard, capacity, OverflowPolicy::wait_until_deadline) {}

  // The task. Cancel: clean.
  Task<> run(Call call) {
    for (;;) {
      auto sample = co_await ticks.recv(call);
      if (!sample) co_return;
      samples_[next_++ % kept] = *sample;
    }
  }
  std::size_t size() const noexcept { return next_ < kept ? next_ : kept; }
  // The newest is 0.
  const Sample& back(std::size_t n) const noexcept { return samples_[(next_ - 1 - n) % kept]; }

  Mpsc<Sample> ticks;  // `metrics_tick`

 private:
  std::array<Sample, kept> samples_{};
  std::size_t next_ = 0;
};

}  // namespace cairn::gateway
