// RecentChanges: what was written to a map and its engine does not have yet. One key alone costs the engine a
// search through all that it holds; many thousands at once, in order, become a file of their own.
//
//   [RC-1] A batch is taken in whole, and changes reach the engine in the order of the batches: what is open
//          is closed, then handed over as a whole, and only then what was opened after it.
//   [RC-2] A change is found here until the engine has it: it is never in neither place.
//   [RC-3] Nothing that the lock is held for takes longer because more is recent, but for the growing of the
//          table itself: whoever wants a range sees what there is now, and looks through it without the lock.
// For one lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/change_table.h"
#include "store/kv.h"

namespace cairn::store {

class RecentChanges {
 public:
  using Value = std::optional<std::string>;  // none: removed
  using Change = ChangeTable::Change;
  // The first `count` changes of a table, one of each key, in order.
  struct Sorted {
    std::vector<Change> changes;
    std::size_t count = 0;
  };
  using SortedPtr = std::shared_ptr<const Sorted>;
  // A table at some moment; read without the lock.
  struct Seen {
    std::shared_ptr<const ChangeTable> table;  // none: nothing
    std::span<const Change> changes;
    SortedPtr sorted;

    std::span<const Change> unsorted() const noexcept {
      return changes.subspan(sorted == nullptr ? 0 : sorted->count);
    }
    // Sorts, if so much was added that the next one would have to look through too much of it: whether it
    // did.
    bool sort();
  };
  using AllSeen = std::array<Seen, 2>;  // the newer first

  explicit RecentChanges(std::uint64_t seed) : seed_(seed), open_{std::make_shared<ChangeTable>(seed), {}} {}

  void add(const KvBatch& batch);
  // Nothing: the engine knows. The inner nothing: removed.
  std::optional<Value> find(std::string_view key) const;
  AllSeen see();
  // If not, the engine may have of that table what was added after it was seen.
  bool is_open(const Seen& seen) const noexcept { return seen.table == open_.table; }
  // What was sorted is there for the next one. Gives what it takes the place of, to let go of outside the
  // lock.
  SortedPtr keep(const Seen& seen);

  // Closes what is open and gives it out, or again what was given out and never ended. It does not change any
  // more, so that it can be read without the lock.
  std::shared_ptr<const ChangeTable> begin();
  // The engine has what begin() gave; whoever has it lets go of it outside the lock, and of what this gives.
  SortedPtr end() noexcept;

  bool empty() const noexcept { return open_.table->empty() && closed_.table == nullptr; }
  std::uint64_t open_bytes() const noexcept { return open_.table->bytes(); }
  std::uint64_t bytes() const noexcept { return open_.bytes() + closed_.bytes(); }

 private:
  struct Layer {
    std::shared_ptr<ChangeTable> table;
    SortedPtr sorted;
    std::uint64_t bytes() const noexcept;
  };

  std::uint64_t seed_;
  Layer open_;
  Layer closed_;  // no table: none
};

// What was seen of [from, until), in order, the newest change of each key. For no lock: the tables are held.
class RecentRange {
 public:
  RecentRange(RecentChanges::AllSeen seen, std::string_view from, std::string_view until);

  // None: the end.
  const ChangeTable::Change* now() const noexcept { return now_; }
  void next() noexcept;

 private:
  using Run = std::span<const ChangeTable::Change>;
  void find_least() noexcept;

  RecentChanges::AllSeen seen_;
  std::array<std::vector<ChangeTable::Change>, 2> sorted_here_;
  std::array<Run, 4> runs_;  // the newest first; each key once
  const ChangeTable::Change* now_ = nullptr;
};

// In the order of the keys, the newest of each.
std::vector<ChangeTable::Change> in_order(std::span<const ChangeTable::Change> changes);

}  // namespace cairn::store
