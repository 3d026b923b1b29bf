// SlotRows: which slot of the arena a group gets. A row is sixteen slots side by side, as many as a part of
// an object has groups: groups that lie one behind the other in the file are sent by one call.
//
//   [CR-1] take() gives a slot that is not given out, and gives one as long as there is one.
//   [CR-2] A place is a wish: a group whose place was taken goes somewhere else.
//   [CR-3] A slot of a large page that was sent rests: it is not given out before the page was punched, which
//         happens when no slot of the page is given out.
// Parts get runs of free slots. Groups that come alone get the fullest rows, so that free rows stay free. A
// row that is being filled is left alone until its part is there, or until many other parts have begun since.
//
// Two rows are a block, which may be one large page (io::Arena). Parts go there first. Groups that come back
// lie in other large pages than groups that come for the first time: a page is of use again only when its
// last group goes.
//
// Not thread-safe: the owner holds a lock.
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
  static constexpr unsigned block_rows = 2;
  static constexpr unsigned block_slots = block_rows * row_slots;

  enum class Memory : std::uint8_t { none, warm, sent };  // of a free slot; `sent` is to be punched
  // A group and what is likely to come behind it.
  struct Want {
    std::uint64_t part = 0;  // a hash of the object and the number of the part
    unsigned at = 0;         // the group's number in the part
    unsigned count = 1;      // of the groups from here to the end of the part
    bool returning = false;  // it was here before
  };
  struct Place {
    std::uint32_t index = 0;
    Memory memory = Memory::none;
  };

  explicit SlotRows(std::uint32_t slots);
  static std::uint64_t bytes_for(std::uint32_t slots) noexcept;

  // Whether the group would lie where its part goes on, or begin a run of free slots that takes all of it.
  bool fits(const Want& want) const noexcept;
  // `huge_only`: one of a large page, which needs no memory.
  std::optional<Place> take(const Want& want, bool huge_only = false) noexcept;
  // Unused memory to give up: a slot, preferably one that was sent, else all slots of a large page.
  struct Spare {
    std::uint32_t index = 0;  // of the slot or the block
    bool block = false;
  };
  std::optional<Spare> take_spare() noexcept;
  bool has_spare() const noexcept;
  void give(std::uint32_t index, Memory memory) noexcept;

  std::uint32_t free() const noexcept { return free_; }        // that take() can give
  std::uint32_t resting() const noexcept { return resting_; }  // CR-3; of pages in use
  std::uint64_t with_memory() const noexcept;  // of all slots that are not given out; counts them

  // --- blocks (cache_slots_blocks.cpp)
  // A block with no slot given out, other than a large page that is ready for use.
  struct Idle {
    std::uint32_t block = 0;
    std::uint32_t with_memory = 0;  // of its slots
  };
  std::optional<Idle> find_idle() const noexcept;
  // A large page to be punched: no slot of it is given out, all of them rest.
  std::optional<std::uint32_t> find_stale() const noexcept { return by_rest_[block_slots].next(); }
  // Takes all slots of a block with no slot given out. From here on the block is small pages, and their
  // memory is the caller's.
  void take_block(std::uint32_t block) noexcept;
  // Gives back the slots that take_block() took: as a large page, or without memory.
  void give_block(std::uint32_t block, bool huge) noexcept;
  bool is_huge(std::uint32_t block) const noexcept {
    return block < blocks_.size() && blocks_[block].ground != Ground::small_pages;
  }
  // Of the large pages in use that `accept` takes, the one with the most resting slots; looks at a few only.
  template <class F>
  std::optional<std::uint32_t> most_rested(F accept) const noexcept {
    unsigned looks = 16;
    for (unsigned count = block_slots - 1; count > 0; --count) {
      for (auto at = by_rest_[count].next(); at && looks > 0; at = by_rest_[count].next(*at + 1), --looks) {
        if (accept(*at)) return at;
      }
    }
    return std::nullopt;
  }
  std::uint32_t ready() const noexcept { return ready_; }  // large pages with no slot given out
  std::uint32_t stale() const noexcept { return stale_; }  // and those to be punched
  std::uint32_t huge() const noexcept { return huge_; }
  // Slots in the large pages in use that are not given out.
  std::uint32_t unused_in_huge() const noexcept { return resting_ + huge_free_ - ready_ * block_slots; }

 private:
  // The kind of pages in a block, and the groups it is for: rows of different grounds are in different sets.
  enum class Ground : std::uint8_t { small_pages, newcomers, returning, ready };
  static constexpr std::size_t ground_count = 4;
  struct Block {
    Ground ground = Ground::small_pages;
    std::uint8_t resting = 0;
  };
  struct Row {
    std::uint16_t free = 0;  // one bit for each slot, in all of these
    std::uint16_t warm = 0;
    std::uint16_t sent = 0;
    std::uint16_t rest = 0;
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
  // A run of free slots that takes all of the part: of several such runs the one in the fullest row. If there
  // is none, the longest run that was found soon.
  Run find_run(const Want& want, bool huge_only) const noexcept;
  Run find_run_in(Ground ground, unsigned count) const noexcept;
  void claim(const Run& run, const Want& want) noexcept;
  void stop_filling(std::uint32_t row) noexcept;
  std::optional<std::uint32_t> odd_slot(const Want& want, bool huge_only) const noexcept;
  Place occupy(std::uint32_t index) noexcept;
  // Before and after a change of the row's bits.
  void leave_set(std::uint32_t row) noexcept;
  void enter_sets(std::uint32_t row) noexcept;
  RowSet& set_of(std::uint32_t row) noexcept;
  const RowSet& rows_with(Ground ground, unsigned free) const noexcept {
    return by_free_[static_cast<std::size_t>(ground) * (row_slots + 1) + free];
  }

  // Rows of the last block may be missing: then it has no number.
  static std::uint32_t blocks_for(std::uint32_t slots) noexcept { return slots / block_slots; }
  Ground ground_of(std::uint32_t row) const noexcept {
    return row / block_rows < blocks_.size() ? blocks_[row / block_rows].ground : Ground::small_pages;
  }
  std::uint32_t free_in(std::uint32_t block) const noexcept;
  void set_ground(std::uint32_t block, Ground ground) noexcept;
  void set_resting(std::uint32_t block, std::uint32_t count) noexcept;
  // Lets the free slots of a page rest: punching it is better than filling it up.
  void rest_all(std::uint32_t block) noexcept;
  // After a change of a row's bits: brings the block's ground and counts up to date.
  void review(std::uint32_t row) noexcept;

  static constexpr std::size_t filling_max = 32;
  static constexpr std::uint32_t no_row = UINT32_MAX;

  std::vector<Row> rows_;
  std::vector<std::uint32_t> hints_;  // the row by the part's hash; wrong ones do not matter
  // Rows that are not being filled, by their ground and the number of their free slots.
  std::vector<RowSet> by_free_;
  RowSet warm_, sent_;                              // rows of small pages with such slots
  std::array<std::uint32_t, filling_max> filling_;  // the hand points to the oldest
  std::size_t filling_count_, hand_ = 0;
  std::uint32_t free_ = 0, resting_ = 0;

  std::vector<Block> blocks_;
  std::vector<RowSet> by_rest_;  // large pages by the number of their resting slots
  RowSet idle_, ready_blocks_;   // blocks with no slot given out: of small pages; large pages
  std::uint32_t ready_ = 0, stale_ = 0, huge_ = 0, huge_free_ = 0;
};

}  // namespace cairn::store
