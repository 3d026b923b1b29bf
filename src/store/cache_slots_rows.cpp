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
      by_free_(ground_count * (row_slots + 1), RowSet(rows_for(slots))),
      warm_(rows_for(slots)),
      sent_(rows_for(slots)),
      filling_count_(std::min<std::size_t>(filling_max, rows_.size() / 4)),
      free_(slots),
      blocks_(blocks_for(slots)),
      by_rest_(block_slots + 1, RowSet(blocks_for(slots))),
      idle_(blocks_for(slots)),
      ready_blocks_(blocks_for(slots)) {
  filling_.fill(no_row);
  for (std::uint32_t row = 0; row < rows_.size(); ++row) {
    rows_[row].free = bits(0, std::min(slots - row * row_slots, row_slots));
    enter_sets(row);
    review(row);
  }
}

std::uint64_t SlotRows::bytes_for(std::uint32_t slots) noexcept {
  const std::uint64_t rows = rows_for(slots);
  auto sets = [](std::uint64_t count, std::uint64_t of) {
    return count * ((of + 63) / 64 * sizeof(std::uint64_t) + sizeof(RowSet));
  };
  return rows * sizeof(Row) + hints_for(slots) * sizeof(std::uint32_t) +
         sets(ground_count * (row_slots + 1) + 2, rows) + blocks_for(slots) * sizeof(Block) +
         sets(block_slots + 3, blocks_for(slots));
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

SlotRows::Run SlotRows::find_run_in(Ground ground, unsigned count) const noexcept {
  Run best;
  auto look = [&](unsigned free) {
    const RowSet& rows = rows_with(ground, free);
    auto row = rows.next();
    for (unsigned looks = 0; row && looks < looks_per_set && best.length < count; ++looks) {
      const auto [start, length] = run_in(rows_[*row].free, count);
      if (length > best.length) best = {*row, start, length};
      row = rows.next(*row + 1);
    }
  };
  for (unsigned free = count; free <= row_slots && best.length < count; ++free) look(free);
  for (unsigned free = count - 1; free > best.length; --free) look(free);
  return best;
}

SlotRows::Run SlotRows::find_run(const Want& want, bool huge_only) const noexcept {
  const Ground own = want.returning ? Ground::returning : Ground::newcomers;
  const Ground other = want.returning ? Ground::newcomers : Ground::returning;
  Run best;
  for (const Ground ground : {own, Ground::ready, Ground::small_pages, other}) {
    if (huge_only && ground == Ground::small_pages) continue;
    const Run run = find_run_in(ground, want.count);
    if (run.length > best.length) best = run;
    if (best.length == want.count) break;
  }
  return best;
}

bool SlotRows::fits(const Want& want) const noexcept {
  return want.count <= 1 || place_in_part(want) || find_run(want, false).length == want.count;
}

std::optional<SlotRows::Place> SlotRows::take(const Want& want, bool huge_only) noexcept {
  if ((huge_only ? huge_free_ : free_) == 0) return std::nullopt;
  const auto wished = place_in_part(want);
  const bool there = wished && (rows_[*wished / row_slots].free >> (*wished % row_slots) & 1) != 0 &&
                     (!huge_only || ground_of(*wished / row_slots) != Ground::small_pages);
  auto index = there ? wished : std::nullopt;
  // Where the part has a place for this group, another reader has brought the same group in: the part stays
  // there.
  if (!wished && want.count > 1) {
    const Run run = find_run(want, huge_only);
    if (run.length > 1) {
      claim(run, want);
      index = run.row * row_slots + run.start;
    }
  }
  if (!index) index = odd_slot(want, huge_only);
  CHECK(index);  // CR-1
  if (ground_of(*index / row_slots) == Ground::ready)
    set_ground(*index / block_slots, want.returning ? Ground::returning : Ground::newcomers);
  return occupy(*index);
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

std::optional<std::uint32_t> SlotRows::odd_slot(const Want& want, bool huge_only) const noexcept {
  auto first_of = [&](std::uint32_t row) {
    return row * row_slots + static_cast<std::uint32_t>(std::countr_zero(rows_[row].free));
  };
  const Ground own = want.returning ? Ground::returning : Ground::newcomers;
  const Ground other = want.returning ? Ground::newcomers : Ground::returning;
  for (const Ground ground : {Ground::small_pages, own, other, Ground::ready}) {
    if (huge_only && ground == Ground::small_pages) continue;
    for (unsigned free = 1; free <= row_slots; ++free) {
      if (const auto row = rows_with(ground, free).next()) return first_of(*row);
    }
  }
  for (const std::uint32_t row : filling_) {
    if (row == no_row || rows_[row].free == 0) continue;
    if (!huge_only || ground_of(row) != Ground::small_pages) return first_of(row);
  }
  return std::nullopt;
}

bool SlotRows::has_spare() const noexcept { return warm_.next() || sent_.next() || stale_ > 0 || ready_ > 0; }

std::optional<SlotRows::Spare> SlotRows::take_spare() noexcept {
  const auto sent = sent_.next();
  if (const auto row = sent ? sent : warm_.next()) {
    const std::uint16_t from = sent ? rows_[*row].sent : rows_[*row].warm;
    const Place place = occupy(*row * row_slots + static_cast<std::uint32_t>(std::countr_zero(from)));
    return Spare{.index = place.index, .block = false};
  }
  const auto stale = find_stale();
  const auto block = stale ? stale : ready_blocks_.next();
  if (!block) return std::nullopt;
  take_block(*block);
  return Spare{.index = *block, .block = true};
}

std::uint64_t SlotRows::with_memory() const noexcept {
  std::uint64_t count = 0;
  for (const Row& row : rows_)
    count += static_cast<unsigned>(std::popcount(row.warm)) + static_cast<unsigned>(std::popcount(row.sent)) +
             static_cast<unsigned>(std::popcount(row.rest));
  return count;
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
  if (ground_of(at) != Ground::small_pages) --huge_free_;
  if (row.filling && (row.free & row.claimed) == 0)
    stop_filling(at);
  else
    enter_sets(at);
  review(at);
  return {index, memory};
}

void SlotRows::give(std::uint32_t index, Memory memory) noexcept {
  const std::uint32_t at = index / row_slots;
  const std::uint16_t bit = bits(index % row_slots, 1);
  Row& row = rows_[at];
  CHECK(((row.free | row.rest) & bit) == 0);
  const bool huge = ground_of(at) != Ground::small_pages;
  CHECK(!huge || memory != Memory::none);
  if (huge && memory == Memory::sent) {  // CR-3
    row.rest |= bit;
    set_resting(at / block_rows, blocks_[at / block_rows].resting + 1u);
  } else {
    leave_set(at);
    row.free |= bit;
    if (memory == Memory::warm) row.warm |= bit;
    if (memory == Memory::sent) row.sent |= bit;
    ++free_;
    if (huge) ++huge_free_;
    enter_sets(at);
  }
  review(at);
}

RowSet& SlotRows::set_of(std::uint32_t row) noexcept {
  const auto free = static_cast<unsigned>(std::popcount(rows_[row].free));
  return by_free_[static_cast<std::size_t>(ground_of(row)) * (row_slots + 1) + free];
}

void SlotRows::leave_set(std::uint32_t row) noexcept {
  if (!rows_[row].filling) set_of(row).set(row, false);
}

void SlotRows::enter_sets(std::uint32_t row) noexcept {
  if (!rows_[row].filling) set_of(row).set(row, true);
  const bool lendable = ground_of(row) == Ground::small_pages;
  warm_.set(row, lendable && rows_[row].warm != 0);
  sent_.set(row, lendable && rows_[row].sent != 0);
}

}  // namespace cairn::store
