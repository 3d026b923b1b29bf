#include "runtime/timer_wheel.h"

#include <algorithm>

namespace cairn {

void TimerWheel::arm(TimerNode& node, Instant due) noexcept {
  const std::int64_t whole = due.ns / tick.ns;
  node.tick = std::max(whole + (due.ns % tick.ns != 0 ? 1 : 0), current_ + 1);
  place(node);
  ++armed_;
}

void TimerWheel::place(TimerNode& node) noexcept {
  const auto ahead = static_cast<std::uint64_t>(node.tick ^ current_);
  int level = ahead == 0 ? 0 : (63 - std::countl_zero(ahead)) / bits;
  std::int64_t at = node.tick;
  if (level >= levels) {
    // Beyond the wheel's present turn: the timer waits where the next turn begins and is placed anew from
    // there.
    level = levels - 1;
    at = ((current_ >> (bits * levels)) + 1) << (bits * levels);
  }
  const auto index = static_cast<std::size_t>((at >> (bits * level)) & (width - 1));
  node.slot = static_cast<std::uint16_t>(level * width + static_cast<int>(index));
  slots_[static_cast<std::size_t>(level)][index].push_back(node);
  occupied_[static_cast<std::size_t>(level)] |= std::uint64_t{1} << index;
}

void TimerWheel::disarm(TimerNode& node) noexcept {
  if (!node.linked()) return;
  node.unlink();
  --armed_;
  const std::size_t level = node.slot / width;
  const std::size_t index = node.slot % width;
  if (slots_[level][index].empty()) occupied_[level] &= ~(std::uint64_t{1} << index);
}

void TimerWheel::cascade(int level) noexcept {
  const auto index = static_cast<std::size_t>((current_ >> (bits * level)) & (width - 1));
  const auto row = static_cast<std::size_t>(level);
  Slot& slot = slots_[row][index];
  occupied_[row] &= ~(std::uint64_t{1} << index);
  List<TimerNode> moved;
  moved.take_all(slot);
  while (!moved.empty()) place(moved.pop_front());
}

std::int64_t TimerWheel::next_tick() const noexcept {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (int level = 0; level < levels; ++level) {
    const std::uint64_t mask = occupied_[static_cast<std::size_t>(level)];
    if (mask == 0) continue;
    const int shift = bits * level;
    const std::int64_t base = current_ >> shift;
    const auto from = static_cast<int>(base & (width - 1));
    // Slots ahead of the hand, in the order the hand will reach them. On level 0 the hand's own slot
    // is still due; on the others it was brought down when the hand arrived.
    const std::uint64_t turned = std::rotr(mask, from);
    const std::uint64_t ahead = level == 0 ? turned : turned & ~std::uint64_t{1};
    std::int64_t steps = ahead != 0 ? std::countr_zero(ahead) : width;
    best = std::min(best, (base + steps) << shift);
  }
  return best;
}

Instant TimerWheel::next_due() const noexcept {
  if (armed_ == 0) return Instant::never();
  const std::int64_t next = next_tick();
  if (next > Instant::never().ns / tick.ns) return Instant::never();
  return {next * tick.ns};
}

}  // namespace cairn
