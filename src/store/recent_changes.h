// RecentChanges: changes that were written to a map and that its engine does not have yet. A single key costs
// the engine a search through all that it holds; many thousands at once, in order, become a file of their
// own.
//
//   [RC-1] A batch is taken in whole, and changes reach the engine in the order of the batches. The open
//         table is closed, then handed over as a whole, and only then the table that was opened after it.
//   [RC-2] A change is found here until the engine has it: it is always in at least one of the two places.
//   [RC-3] More recent changes do not make any step under the lock longer, except that the table itself
//         grows. A reader that wants a range sees the tables as they are now, and looks through them without
//         the lock.
// Not thread-safe: the owner holds a lock.
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
    // Sorts, if so many changes were added that the next reader would have to look through too many of them.
    // True: it did.
    bool sort();
  };
  using AllSeen = std::array<Seen, 2>;  // the newer first

  explicit RecentChanges(std::uint64_t seed) : seed_(seed), open_{std::make_shared<ChangeTable>(seed), {}} {}

  void add(const KvBatch& batch);
  // None: ask the engine. The inner none: removed.
  std::optional<Value> find(std::string_view key) const;
  AllSeen see();
  // If the table is not open any more, the engine may have changes of it that were added after it was seen.
  bool is_open(const Seen& seen) const noexcept { return seen.table == open_.table; }
  // Keeps the sorted changes for the next reader. Gives the ones they replace, to be freed outside the lock.
  SortedPtr keep(const Seen& seen);

  // Closes the open table and gives it out, or gives again a closed one that was never ended. A closed table
  // does not change any more, so it can be read without the lock.
  std::shared_ptr<const ChangeTable> begin();
  // The engine has the table that begin() gave. The caller lets go of that table, and of what this gives,
  // outside the lock.
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

// The newest change of each key in [from, until), in order, from tables that were seen. Needs no lock: it
// holds the tables.
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
