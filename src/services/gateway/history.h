// History: what the gateway was like in the last 15 minutes, second by second. The prober takes samples, and
// waits to send them; the task `history` keeps them; /admin/tenants tells the newest.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "runtime/declaration.h"
#include "runtime/guarded.h"
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

inline constexpr LockDeclaration samples_lock{"samples", 13, "the samples of the last 15 minutes"};

// From any shard.
class Samples {
 public:
  static constexpr std::size_t kept = 15 * 60;

  void add(const Sample& sample) {
    ring_.with([&](Ring& ring) { ring.at[ring.next++ % kept] = sample; });
  }
  // At most so many; the newest is the first.
  std::vector<Sample> newest(std::size_t most) const {
    std::vector<Sample> found;
    found.reserve(std::min(most, kept));
    ring_.with([&](const Ring& ring) {
      const std::size_t count = std::min({most, kept, ring.next});
      for (std::size_t i = 1; i <= count; ++i) found.push_back(ring.at[(ring.next - i) % kept]);
    });
    return found;
  }

 private:
  struct Ring {
    std::array<Sample, kept> at{};
    std::size_t next = 0;
  };
  Guarded<Ring, samples_lock.rank> ring_;
};

class History {
 public:
  History(Shard& shard, std::size_t capacity, Samples& into)
      : ticks(shard, capacity, OverflowPolicy::wait_until_deadline), into_(into) {}

  // The task. Cancel: clean.
  Task<> run(Call call) {
    for (;;) {
      auto sample = co_await ticks.recv(call);
      if (!sample) co_return;
      into_.add(*sample);
    }
  }

  Mpsc<Sample> ticks;  // `metrics_tick`

 private:
  Samples& into_;
};

}  // namespace cairn::gateway
