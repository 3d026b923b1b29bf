#include "store/cache_slots_rows.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace cairn::store {
namespace {

constexpr unsigned looks_per_set = 4;

std::uint16_t bits(unsigned start, unsigned count) noexcept {
  return static_cast<std::uint16_t>(((1u << count) - 1) << start);
}

// The first run of `count` bits, else the longest.
std::pair<unsigned, unsigned> run_in(std::uint16_t mask, unsigned count) noexcept {
  unsigned start = 0, length = 0;
  for (unsigned at = 0; at < SlotRows::row_slots && length < count;) {
    const unsigned rest = static_cast<unsigned>(mask) >> at;
    if (rest == 0) break;
    at += static_cast<unsigned>(std::countr_zero(rest));
    const auto run = static_cast<unsigned>(std::countr_one(static_cast<unsigned>(mask) >> at));
    if (run > length) {
      start = at;
      length = run;
    }
    at += run;
  }
  return {start, std::min(length, count)};
}

std::uint32_t rows_for(std::uint32_t slots) noexcept {
  return (slots + SlotRows::row_slots - 1) / SlotRows::row_slots;
}

std::uint64_t hints_for(std::uint32_t slots) noexcept {
  return std::bit_ceil(std::uint64_t{2} * std::max(1u, rows_for(slots)));
}

}  // namespace

std::optional<std::uint32_t> RowSet::next(std::uint32_t from) const noexcept {
  std::size_t at = from / 64;
  if (at >= words_.size()) return std::nullopt;
  std::uint64_t word = words_[at] & (~std::uint64_t{0} << (from % 64));
  while (word == 0) {
    if (++at == words_.size()) return std::nullopt;
    word = words_[at];
  }
  return static_cast<std::uint32_t>(at * 64) + static_cast<std::uint32_t>(std::countr_zero(word));
}

SlotRows::SlotRows(std::uint32_t slots)
    : rows_(rows_for(slots)),
      hints_(hints_for(slots), 0),
      by_free_(row_slots + 1, RowSet(rows_for(slots))),
      warm_(rows_for(slots)),
      sent_(rows_for(slots)),
      filling_count_(std::min<std::size_t>(filling_max, rows_.size() / 4)),
      free_(slots) {
  filling_.fill(no_row);
  for (std::uint32_t row = 0; row < rows_.size(); ++row) {
    rows_[row].free = bits(0, std::min(slots - row * row_slots, row_slots));
    enter_sets(row);
  }
}

std::uint64_t SlotRows::bytes_for(std::uint32_t slots) noexcept {
  const std::uint64_t rows = rows_for(slots);
  return rows * sizeof(Row) + hints_for(slots) * sizeof(std::uint32_t) +
         (row_slots + 3) * ((rows + 63) / 64 * sizeof(std::uint64_t) + sizeof(RowSet));
}

const SlotRows::Row* SlotRows::row_of(std::uint64_t part) const noexcept {
  auto is_of_part = [&](const Row& row) { return row.claimed != 0 && row.part == part; };
  if (rows_.empty()) return nullptr;
  const Row& hinted = rows_[hints_[part & (hints_.size() - 1)]];
  if (is_of_part(hinted)) return &hinted;
  for (const std::uint32_t row : filling_) {
    if (row != no_row && is_of_part(rows_[row])) return &rows_[row];
  }
  return nullptr;
}

std::optional<std::uint32_t> SlotRows::place_in_part(const Want& want) const noexcept {
  const Row* row = row_of(want.part);
  if (row == nullptr) return std::nullopt;
  const int at = row->base + static_cast<int>(want.at);
  if (at < 0 || at >= static_cast<int>(row_slots) || (row->claimed >> at & 1) == 0) return std::nullopt;
  return static_cast<std::uint32_t>((row - rows_.data()) * row_slots + at);
}

SlotRows::Run SlotRows::find_run(unsigned count) const noexcept {
  Run best;
  auto look = [&](unsigned free) {
    auto row = by_free_[free].next();
    for (unsigned looks = 0; row && looks < looks_per_set && best.length < count; ++looks) {
      const auto [start, length] = run_in(rows_[*row].free, count);
      if (length > best.length) best = {*row, start, length};
      row = by_free_[free].next(*row + 1);
    }
  };
  for (unsigned free = count; free <= row_slots && best.length < count; ++free) look(free);
  for (unsigned free = count - 1; free > best.length; --free) look(free);
  return best;
}

bool SlotRows::fits(const Want& want) const noexcept {
  return want.count <= 1 || place_in_part(want) || find_run(want.count).length == want.count;
}

std::optional<SlotRows::Place> SlotRows::take(const Want& want) noexcept {
  if (free_ == 0) return std::nullopt;
  const auto wished = place_in_part(want);
  if (wished && (rows_[*wished / row_slots].free >> (*wished % row_slots) & 1) != 0) return occupy(*wished);
  // Where the part has a place for this group, another reader brings the same one in: the part stays there.
  if (!wished && want.count > 1) {
    const Run run = find_run(want.count);
    if (run.length > 1) {
      claim(run, want);
      return occupy(run.row * row_slots + run.start);
    }
  }
  const auto odd = odd_slot();
  CHECK(odd);
  return occupy(*odd);
}

void SlotRows::claim(const Run& run, const Want& want) noexcept {
  Row& row = rows_[run.row];
  row.part = want.part;
  row.base = static_cast<std::int8_t>(static_cast<int>(run.start) - static_cast<int>(want.at));
  row.claimed = bits(run.start, run.length);
  hints_[want.part & (hints_.size() - 1)] = run.row;
  if (filling_count_ == 0) return;
  const std::uint32_t oldest = filling_[hand_];
  if (oldest != no_row && rows_[oldest].filling) stop_filling(oldest);
  leave_set(run.row);
  row.filling = true;
  filling_[hand_] = run.row;
  hand_ = (hand_ + 1) % filling_count_;
}

void SlotRows::stop_filling(std::uint32_t row) noexcept {
  rows_[row].filling = false;
  std::ranges::replace(filling_, row, no_row);
  enter_sets(row);
}

std::optional<std::uint32_t> SlotRows::odd_slot() const noexcept {
  for (unsigned free = 1; free <= row_slots; ++free) {
    if (const auto row = by_free_[free].next())
      return *row * row_slots + static_cast<std::uint32_t>(std::countr_zero(rows_[*row].free));
  }
  for (const std::uint32_t row : filling_) {
    if (row != no_row && rows_[row].free != 0)
      return row * row_slots + static_cast<std::uint32_t>(std::countr_zero(rows_[row].free));
  }
  return std::nullopt;
}

std::optional<std::uint32_t> SlotRows::take_spare() noexcept {
  const auto sent = sent_.next();
  const auto row = sent ? sent : warm_.next();
  if (!row) return std::nullopt;
  const std::uint16_t from = sent ? rows_[*row].sent : rows_[*row].warm;
  return occupy(*row * row_slots + static_cast<std::uint32_t>(std::countr_zero(from))).index;
}

SlotRows::Place SlotRows::occupy(std::uint32_t index) noexcept {
  const std::uint32_t at = index / row_slots;
  const std::uint16_t bit = bits(index % row_slots, 1);
  Row& row = rows_[at];
  CHECK((row.free & bit) != 0);
  const Memory memory = (row.warm & bit) != 0   ? Memory::warm
                        : (row.sent & bit) != 0 ? Memory::sent
                                                : Memory::none;
  leave_set(at);
  row.free = static_cast<std::uint16_t>(row.free & ~bit);
  row.warm = static_cast<std::uint16_t>(row.warm & ~bit);
  row.sent = static_cast<std::uint16_t>(row.sent & ~bit);
  --free_;
  if (row.filling && (row.free & row.claimed) == 0)
    stop_filling(at);
  else
    enter_sets(at);
  return {index, memory};
}

void SlotRows::give(std::uint32_t index, Memory memory) noexcept {
  const std::uint32_t at = index / row_slots;
  const std::uint16_t bit = bits(index % row_slots, 1);
  Row& row = rows_[at];
  CHECK((row.free & bit) == 0);
  leave_set(at);
  row.free |= bit;
  if (memory == Memory::warm) row.warm |= bit;
  if (memory == Memory::sent) row.sent |= bit;
  ++free_;
  enter_sets(at);
}

void SlotRows::leave_set(std::uint32_t row) noexcept {
  if (!rows_[row].filling) by_free_[static_cast<unsigned>(std::popcount(rows_[row].free))].set(row, false);
}

void SlotRows::enter_sets(std::uint32_t row) noexcept {
  if (!rows_[row].filling) by_free_[static_cast<unsigned>(std::popcount(rows_[row].free))].set(row, true);
  warm_.set(row, rows_[row].warm != 0);
  sent_.set(row, rows_[row].sent != 0);
}

}  // namespace cairn::store
