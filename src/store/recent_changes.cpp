#include "store/recent_changes.h"

#include <algorithm>
#include <cstring>

#include "base/mix.h"

namespace cairn::store {
namespace {

constexpr std::uint64_t node_bytes = 160;  // of a table, beside key and value, about

}  // namespace

// Eight bytes a step, and the last eight, which may overlap.
std::size_t RecentChanges::Hash::operator()(std::string_view key) const noexcept {
  std::uint64_t hash = seed ^ key.size();
  const auto take = [&](const char* from, std::size_t count) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, count);
    hash = mix(hash ^ word, 0xd6e8feb86659fd93u ^ seed);
  };
  for (std::size_t at = 0; at + 8 <= key.size(); at += 8) take(key.data() + at, 8);
  if (key.size() >= 8)
    take(key.data() + key.size() - 8, 8);
  else if (!key.empty())
    take(key.data(), key.size());
  return hash;
}

void RecentChanges::add(KvBatch batch) {
  for (KvBatch::Change& change : std::move(batch).take()) {
    const auto [at, fresh] = open_.try_emplace(std::move(change.key));
    if (fresh)
      open_bytes_ += node_bytes + at->first.size();
    else if (at->second)
      open_bytes_ -= at->second->size();
    if (change.value) open_bytes_ += change.value->size();
    at->second = std::move(change.value);
  }
}

std::optional<RecentChanges::Value> RecentChanges::find(std::string_view key) const {
  if (const auto found = open_.find(key); found != open_.end()) return found->second;
  if (closed_ == nullptr) return std::nullopt;
  const auto found = closed_->find(key);
  if (found == closed_->end()) return std::nullopt;
  return found->second;
}

std::map<std::string, RecentChanges::Value> RecentChanges::range(std::string_view from,
                                                                 std::string_view until) const {
  std::map<std::string, Value> found;
  const auto take = [&](const Table& table) {
    for (const auto& [key, value] : table)
      if (key >= from && key < until) found.emplace(key, value);
  };
  take(open_);  // first: emplace() keeps the newer
  if (closed_ != nullptr) take(*closed_);
  return found;
}

std::shared_ptr<const RecentChanges::Table> RecentChanges::begin() {
  if (closed_ == nullptr && !open_.empty()) {
    auto closing = std::make_shared<Table>(0, open_.hash_function());
    closing->swap(open_);
    open_.reserve(closing->size());
    closed_ = std::move(closing);
    closed_bytes_ = std::exchange(open_bytes_, 0);
  }
  return closed_;
}

std::vector<const RecentChanges::Table::value_type*> in_order(const RecentChanges::Table& table) {
  std::vector<const RecentChanges::Table::value_type*> sorted;
  sorted.reserve(table.size());
  for (const auto& change : table) sorted.push_back(&change);
  std::ranges::sort(sorted, {}, [](const auto* change) -> const std::string& { return change->first; });
  return sorted;
}

}  // namespace cairn::store
