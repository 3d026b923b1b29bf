#include "store/recent_changes.h"

#include <algorithm>
#include <utility>

namespace cairn::store {
namespace {

RecentChanges::Value value_of(const ChangeTable::Change& change) {
  const auto value = change.value();
  return value ? RecentChanges::Value(std::in_place, *value) : std::nullopt;
}

}  // namespace

void RecentChanges::add(const KvBatch& batch) {
  for (const KvBatch::Change& change : batch.changes()) open_.set(change.key, change.value);
}

std::optional<RecentChanges::Value> RecentChanges::find(std::string_view key) const {
  if (const auto* found = open_.find(key)) return value_of(*found);
  if (closed_ == nullptr) return std::nullopt;
  if (const auto* found = closed_->find(key)) return value_of(*found);
  return std::nullopt;
}

std::map<std::string, RecentChanges::Value> RecentChanges::range(std::string_view from,
                                                                 std::string_view until) const {
  std::map<std::string, Value> found;
  const auto take = [&](const ChangeTable& table) {
    for (const ChangeTable::Change& change : table.changes())
      if (change.is_within(from, until)) found.emplace(change.key(), value_of(change));
  };
  take(open_);  // first: emplace() keeps the newer
  if (closed_ != nullptr) take(*closed_);
  return found;
}

std::shared_ptr<const ChangeTable> RecentChanges::begin() {
  if (closed_ == nullptr && !open_.empty()) {
    ChangeTable fresh(seed_);
    fresh.expect(open_.changes().size());
    closed_ = std::make_shared<const ChangeTable>(std::exchange(open_, std::move(fresh)));
  }
  return closed_;
}

std::vector<ChangeTable::Change> in_order(const ChangeTable& table) {
  std::vector<ChangeTable::Change> sorted = table.changes();
  std::ranges::sort(sorted, std::less<>());
  return sorted;
}

}  // namespace cairn::store
