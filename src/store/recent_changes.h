// RecentChanges: what was written to a map and its engine does not have yet. One key alone costs the engine a
// search through all that it holds; many thousands at once, in order, become a file of their own.
//
//   [RC-1] A batch is taken in whole, and changes reach the engine in the order of the batches: what is open
//          is closed, then handed over as a whole, and only then what was opened after it.
//   [RC-2] A change is found here until the engine has it: it is never in neither place.
// For one lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/change_table.h"
#include "store/kv.h"

namespace cairn::store {

class RecentChanges {
 public:
  using Value = std::optional<std::string>;  // none: removed

  explicit RecentChanges(std::uint64_t seed) : seed_(seed), open_(seed) {}

  void add(const KvBatch& batch);
  // Nothing: the engine knows. The inner nothing: removed.
  std::optional<Value> find(std::string_view key) const;
  // The changes of keys in [from, until), in order.
  std::map<std::string, Value> range(std::string_view from, std::string_view until) const;

  // Closes what is open and gives it out, or again what was given out and never ended. It does not change any
  // more, so that it can be read without the lock.
  std::shared_ptr<const ChangeTable> begin();
  // The engine has what begin() gave; whoever has it lets go of it outside the lock.
  void end() noexcept { closed_.reset(); }

  bool empty() const noexcept { return open_.empty() && closed_ == nullptr; }
  std::uint64_t open_bytes() const noexcept { return open_.bytes(); }
  std::uint64_t bytes() const noexcept { return open_.bytes() + (closed_ == nullptr ? 0 : closed_->bytes()); }

 private:
  std::uint64_t seed_;
  ChangeTable open_;
  std::shared_ptr<const ChangeTable> closed_;
};

// In the order of the keys.
std::vector<ChangeTable::Change> in_order(const ChangeTable& table);

}  // namespace cairn::store
