// RecentChanges: what was written to a map and its engine does not have yet. One key alone costs the engine a
// search through all that it holds in memory; thousands of them at once, in order, cost it little each.
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
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mix.h"
#include "store/kv.h"

namespace cairn::store {

class RecentChanges {
  struct Hash {
    using is_transparent = void;
    std::uint64_t seed;
    std::size_t operator()(std::string_view key) const noexcept { return hash_of(key, seed); }
  };

 public:
  using Value = std::optional<std::string>;  // none: removed
  using Table = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;

  // `seed`: so that nobody can choose keys that meet in one place of the table.
  explicit RecentChanges(std::uint64_t seed) : open_(0, Hash{seed}) {}

  void add(KvBatch batch);
  // Nothing: the engine knows. The inner nothing: removed.
  std::optional<Value> find(std::string_view key) const;
  // The changes of keys in [from, until), in order.
  std::map<std::string, Value> range(std::string_view from, std::string_view until) const;

  // Closes what is open and gives it out, or again what was given out and never ended. It does not change any
  // more, so that it can be read without the lock.
  std::shared_ptr<const Table> begin();
  // The engine has what begin() gave; whoever has it lets go of it outside the lock.
  void end() noexcept { closed_.reset(); }

  bool empty() const noexcept { return open_.empty() && closed_ == nullptr; }
  std::uint64_t open_bytes() const noexcept { return open_bytes_; }
  std::uint64_t bytes() const noexcept { return open_bytes_ + (closed_ == nullptr ? 0 : closed_bytes_); }

 private:
  Table open_;
  std::shared_ptr<const Table> closed_;
  std::uint64_t open_bytes_ = 0, closed_bytes_ = 0;
};

// In the order of the keys.
std::vector<const RecentChanges::Table::value_type*> in_order(const RecentChanges::Table& table);

}  // namespace cairn::store
