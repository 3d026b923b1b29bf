// A coarse hierarchical timer wheel: arming and disarming are a list operation, firing is rounded up to
// the next millisecond. One per shard; a deadline costs no allocation.
//   [W-1] A timer never fires before its due time.
//   [W-2] advance(t) fires every timer due at or before t, in slot order.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/units.h"
#include "runtime/list.h"

namespace cairn {

struct TimerNode : Link {
  std::int64_t tick = 0;  // due time in ticks, rounded up
  std::uint16_t slot = 0;
};

class TimerWheel {
 public:
  static constexpr Duration tick = Duration::millis(1);

  bool empty() const noexcept { return armed_ == 0; }
  void arm(TimerNode& node, Instant due) noexcept;
  void disarm(TimerNode& node) noexcept;

  // The earliest moment at which advance() may have something to do; never() when nothing is armed.
  Instant next_due() const noexcept;

  template <class F>
  void advance(Instant now, F fire) {
    const std::int64_t target = now.ns / tick.ns;
    while (armed_ != 0) {
      const std::int64_t next = next_tick();
      if (next > target) break;
      current_ = next;
      fire_current(fire);
    }
    if (target > current_) current_ = target;
  }

  // Back to tick zero, for a driver that runs many worlds one after another. Precondition: empty().
  void rewind() noexcept {
    CHECK(empty());
    current_ = 0;
  }

  // Exploration treats every armed timer as a possible next event.
  template <class F>
  void for_each(F visit) {
    for (std::size_t level = 0; level < slots_.size(); ++level)
      for (std::uint64_t mask = occupied_[level]; mask != 0; mask &= mask - 1)
        slots_[level][static_cast<std::size_t>(std::countr_zero(mask))].for_each(visit);
  }

 private:
  static constexpr int levels = 5;
  static constexpr int bits = 6;
  static constexpr int width = 1 << bits;
  using Slot = List<TimerNode>;

  void place(TimerNode& node) noexcept;
  std::int64_t next_tick() const noexcept;

  // Fires level 0's current slot after bringing down what the higher levels hold for this tick.
  template <class F>
  void fire_current(F fire) {
    for (int level = levels - 1; level >= 1; --level) {
      if ((current_ & ((std::int64_t{1} << (bits * level)) - 1)) != 0) continue;
      cascade(level);
    }
    Slot& slot = slots_[0][static_cast<std::size_t>(current_ & (width - 1))];
    while (!slot.empty()) {
      TimerNode& node = slot.front();
      disarm(node);
      fire(node);
    }
  }
  void cascade(int level) noexcept;

  std::array<std::array<Slot, width>, levels> slots_;
  std::array<std::uint64_t, levels> occupied_{};
  std::int64_t current_ = 0;
  std::size_t armed_ = 0;
};

}  // namespace cairn
