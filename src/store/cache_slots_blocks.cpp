#include <bit>

#include "base/check.h"
#include "store/cache_slots_rows.h"

namespace cairn::store {

std::uint32_t SlotRows::free_in(std::uint32_t block) const noexcept {
  std::uint32_t free = 0;
  for (std::uint32_t row = block * block_rows; row < (block + 1) * block_rows; ++row)
    free += static_cast<std::uint32_t>(std::popcount(rows_[row].free));
  return free;
}

std::optional<SlotRows::Idle> SlotRows::find_idle() const noexcept {
  if (const auto stale = find_stale()) return Idle{.block = *stale, .with_memory = block_slots};
  const auto idle = idle_.next();
  if (!idle) return std::nullopt;
  Idle found{.block = *idle, .with_memory = 0};
  for (std::uint32_t row = *idle * block_rows; row < (*idle + 1) * block_rows; ++row)
    found.with_memory += static_cast<std::uint32_t>(std::popcount(rows_[row].warm)) +
                         static_cast<std::uint32_t>(std::popcount(rows_[row].sent));
  return found;
}

void SlotRows::take_block(std::uint32_t block) noexcept {
  CHECK(free_in(block) + blocks_[block].resting == block_slots);
  set_resting(block, 0);
  for (std::uint32_t row = block * block_rows; row < (block + 1) * block_rows; ++row) rows_[row].rest = 0;
  set_ground(block, Ground::small_pages);
  for (std::uint32_t index = block * block_slots; index < (block + 1) * block_slots; ++index)
    if ((rows_[index / row_slots].free >> (index % row_slots) & 1) != 0) occupy(index);
}

void SlotRows::give_block(std::uint32_t block, bool huge) noexcept {
  CHECK(free_in(block) == 0 && !is_huge(block));
  if (huge) set_ground(block, Ground::newcomers);  // ready when all of it is there
  for (std::uint32_t index = block * block_slots; index < (block + 1) * block_slots; ++index)
    give(index, huge ? Memory::warm : Memory::none);
}

void SlotRows::set_ground(std::uint32_t block, Ground ground) noexcept {
  const Ground before = blocks_[block].ground;
  if (before == ground) return;
  const std::uint32_t first = block * block_rows;
  for (std::uint32_t row = first; row < first + block_rows; ++row) leave_set(row);
  blocks_[block].ground = ground;
  for (std::uint32_t row = first; row < first + block_rows; ++row) enter_sets(row);
  ready_blocks_.set(block, ground == Ground::ready);
  if (before == Ground::ready) --ready_;
  if (ground == Ground::ready) ++ready_;
  if (before == Ground::small_pages) {
    ++huge_;
    huge_free_ += free_in(block);
    idle_.set(block, false);
  } else if (ground == Ground::small_pages) {
    --huge_;
    huge_free_ -= free_in(block);
  }
}

void SlotRows::set_resting(std::uint32_t block, std::uint32_t count) noexcept {
  const std::uint32_t before = blocks_[block].resting;
  by_rest_[before].set(block, false);
  by_rest_[count].set(block, true);
  blocks_[block].resting = static_cast<std::uint8_t>(count);
  if (before == block_slots)
    --stale_;
  else
    resting_ -= before;
  if (count == block_slots)
    ++stale_;
  else
    resting_ += count;
}

void SlotRows::review(std::uint32_t row) noexcept {
  const std::uint32_t block = row / block_rows;
  if (block >= blocks_.size()) return;
  const std::uint32_t free = free_in(block);
  if (!is_huge(block)) {
    idle_.set(block, free == block_slots);
  } else if (free == block_slots) {
    set_ground(block, Ground::ready);
  } else if (free > 0 && free + blocks_[block].resting == block_slots) {
    rest_all(block);
  }
}

void SlotRows::rest_all(std::uint32_t block) noexcept {
  for (std::uint32_t at = block * block_rows; at < (block + 1) * block_rows; ++at) {
    Row& row = rows_[at];
    const auto free = static_cast<std::uint32_t>(std::popcount(row.free));
    leave_set(at);
    row.rest |= row.free;
    row.free = row.warm = 0;
    free_ -= free;
    huge_free_ -= free;
    if (row.filling)
      stop_filling(at);
    else
      enter_sets(at);
  }
  set_resting(block, block_slots);
}

}  // namespace cairn::store
