#include "store/recent_changes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace cairn::store {
namespace {

constexpr std::uint64_t node_bytes = 160;  // of a table, beside key and value, about

}  // namespace

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
  // By the first bytes as a number, which are at hand; the whole key only where these are equal.
  using Numbered = std::pair<std::uint64_t, const RecentChanges::Table::value_type*>;
  std::vector<Numbered> numbered;
  numbered.reserve(table.size());
  for (const auto& change : table) {
    std::array<unsigned char, 8> first{};
    std::memcpy(first.data(), change.first.data(), std::min(first.size(), change.first.size()));
    numbered.emplace_back(std::byteswap(std::bit_cast<std::uint64_t>(first)), &change);
  }
  std::ranges::sort(numbered, [](const Numbered& a, const Numbered& b) {
    return a.first != b.first ? a.first < b.first : a.second->first < b.second->first;
  });
  std::vector<const RecentChanges::Table::value_type*> sorted;
  sorted.reserve(numbered.size());
  for (const auto& [number, change] : numbered) sorted.push_back(change);
  return sorted;
}

}  // namespace cairn::store
