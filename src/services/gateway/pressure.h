// Pressure: how much the gateway sheds. A sample of its load comes once a second; every request asks.
//   [PS-1] It rises at once, as far as the sample says, and falls by one level at a time: when the load has
//         stayed below the level for `calm`. So it does not flap.
//   [PS-2] Level by level more is shed: changes; reads that are expensive too; everything but health.
//   [PS-3] What a deep queue causes is shed only from tenants above their share.
//
// Atomics: numbers that publish no other memory, so the order is relaxed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/units.h"

namespace cairn::gateway {

enum class Kind : std::uint8_t { read, expensive_read, change };

class Pressure {
 public:
  enum class Level : std::uint8_t { none, changes, expensive_reads, all };
  static constexpr Duration calm = Duration::seconds(5);
  // A level is left only below this part of where it begins.
  static constexpr double lower = 0.8;

  struct Load {
    double queue = 0;      // the part of the places of `work` that are taken
    double memory = 0;     // the part of the memory that is used
    double upstreams = 0;  // the part of the ways to upstreams that are shut
  };
  static constexpr Level level_of(const Load& load) noexcept {
    return std::max(of_queue(load.queue), of_the_rest(load));
  }

  void sample(const Load& load, Instant now) noexcept;
  Level level() const noexcept { return level_.load(std::memory_order_relaxed); }
  // `above`: the tenant has more than its share.
  bool sheds(Kind kind, bool above) const noexcept {
    const Level level = above ? this->level() : common_.load(std::memory_order_relaxed);
    switch (kind) {
      case Kind::change:
        return level >= Level::changes;
      case Kind::expensive_read:
        return level >= Level::expensive_reads;
      case Kind::read:
        break;
    }
    return level >= Level::all;
  }

 private:
  static constexpr Level of_queue(double part) noexcept {
    return part >= 0.95 ? Level::expensive_reads : part >= 0.75 ? Level::changes : Level::none;
  }
  static constexpr Level of_the_rest(const Load& load) noexcept {
    const Level memory = load.memory >= 1      ? Level::all
                         : load.memory >= 0.95 ? Level::expensive_reads
                         : load.memory >= 0.85 ? Level::changes
                                               : Level::none;
    return std::max(memory, load.upstreams >= 1 ? Level::changes : Level::none);
  }
  struct Steady {
    Level level = Level::none;
    Instant calm_since = Instant::never();
    void follow(Level asked, Level kept, Instant now) noexcept;
  };

  // --- of the one who samples
  Steady all_, rest_;
  std::atomic<Level> level_{Level::none};   // with what the queue causes
  std::atomic<Level> common_{Level::none};  // without
};

}  // namespace cairn::gateway
