// SlotRows: which slot of the arena a group gets. A row is sixteen slots side by side, as many as a part of
// an object has groups: groups that lie one behind the other in the file are sent by one call.
//
//   take() gives a slot that nobody has, and gives one as long as there is one.
//   A place is a wish: a group whose place was taken goes somewhere else.
// Runs of free slots go to parts, and the fullest rows to what comes alone, so that free rows stay free. A
// row that is being filled is left alone until its part is there, or many others have begun since. For one
// lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::store {

// A set of row numbers, with the lowest at hand.
class RowSet {
 public:
  explicit RowSet(std::uint32_t rows) : words_((rows + 63) / 64) {}
  void set(std::uint32_t row, bool present) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (row % 64);
    words_[row / 64] = present ? words_[row / 64] | bit : words_[row / 64] & ~bit;
  }
  // The lowest that is not below `from`.
  std::optional<std::uint32_t> next(std::uint32_t from = 0) const noexcept;

 private:
  std::vector<std::uint64_t> words_;
};

class SlotRows {
 public:
  static constexpr unsigned row_slots = 16;

  enum class Memory : std::uint8_t { none, warm, sent };  // of a free slot; `sent` is to be punched
  // A group and what is likely to come behind it.
  struct Want {
    std::uint64_t part = 0;  // a hash of the object and the number of the part
    unsigned at = 0;         // the group's number in the part
    unsigned count = 1;      // of the groups from here to the end of the part
  };
  struct Place {
    std::uint32_t index = 0;
    Memory memory = Memory::none;
  };

  explicit SlotRows(std::uint32_t slots);
  static std::uint64_t bytes_for(std::uint32_t slots) noexcept;

  // Whether the group would lie where its part goes on, or begin a run of free slots that takes all of it.
  bool fits(const Want& want) const noexcept;
  std::optional<Place> take(const Want& want) noexcept;
  // One that has memory, rather one that was sent.
  std::optional<std::uint32_t> take_spare() noexcept;
  void give(std::uint32_t index, Memory memory) noexcept;

  std::uint32_t free() const noexcept { return free_; }
  bool has_spare() const noexcept { return warm_.next().has_value() || sent_.next().has_value(); }

 private:
  struct Row {
    std::uint16_t free = 0;  // one bit for each slot, in all of these
    std::uint16_t warm = 0;
    std::uint16_t sent = 0;
    std::uint16_t claimed = 0;  // by the part
    std::int8_t base = 0;       // where the part's first group is, or would be
    bool filling = false;
    std::uint64_t part = 0;
  };
  struct Run {
    std::uint32_t row = 0;
    unsigned start = 0, length = 0;
  };

  const Row* row_of(std::uint64_t part) const noexcept;
  // The slot of its row where the group belongs, free or not; nothing when the part does not go on there.
  std::optional<std::uint32_t> place_in_part(const Want& want) const noexcept;
  // A run of `count` free slots, of those the one in the fullest row; else the longest that was found soon.
  Run find_run(unsigned count) const noexcept;
  void claim(const Run& run, const Want& want) noexcept;
  void stop_filling(std::uint32_t row) noexcept;
  std::optional<std::uint32_t> odd_slot() const noexcept;
  Place occupy(std::uint32_t index) noexcept;
  // Before and after a change of the row's bits.
  void leave_set(std::uint32_t row) noexcept;
  void enter_sets(std::uint32_t row) noexcept;

  static constexpr std::size_t filling_max = 32;
  static constexpr std::uint32_t no_row = UINT32_MAX;

  std::vector<Row> rows_;
  std::vector<std::uint32_t> hints_;  // the row by the part's hash; wrong ones do not matter
  std::vector<RowSet> by_free_;       // rows that are not being filled, by the number of their free slots
  RowSet warm_, sent_;                // rows with such slots
  std::array<std::uint32_t, filling_max> filling_;  // the oldest at the hand
  std::size_t filling_count_, hand_ = 0;
  std::uint32_t free_ = 0;
};

}  // namespace cairn::store
