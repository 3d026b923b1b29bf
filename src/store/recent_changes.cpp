#include "store/recent_changes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace cairn::store {
namespace {

// Sorting is put off until this many changes were added, and this part of the sorted ones. Then a reader
// looks through few unsorted changes, and each change is sorted again few times.
constexpr std::size_t sort_least = 1024;
constexpr std::size_t sort_part = 8;

RecentChanges::Value value_of(const ChangeTable::Change& change) {
  const auto value = change.value();
  return value ? RecentChanges::Value(std::in_place, *value) : std::nullopt;
}

// Numbered, so that of one key the older change comes first, whatever the sort.
struct Numbered {
  ChangeTable::Change change;
  std::size_t number = 0;
  friend bool operator<(const Numbered& a, const Numbered& b) noexcept {
    return a.change < b.change || (!(b.change < a.change) && a.number < b.number);
  }
};

}  // namespace

void RecentChanges::add(const KvBatch& batch) {
  for (const KvBatch::Change& change : batch.changes()) open_.table->set(change.key, change.value);
}

std::optional<RecentChanges::Value> RecentChanges::find(std::string_view key) const {
  if (const auto* found = open_.table->find(key)) return value_of(*found);
  if (closed_.table == nullptr) return std::nullopt;
  if (const auto* found = closed_.table->find(key)) return value_of(*found);
  return std::nullopt;
}

std::shared_ptr<const ChangeTable> RecentChanges::begin() {
  if (closed_.table == nullptr && !open_.table->empty()) {
    auto fresh = std::make_shared<ChangeTable>(seed_);
    fresh->expect(open_.table->changes().size());
    closed_ = std::exchange(open_, Layer{std::move(fresh), nullptr});
  }
  return closed_.table;
}

RecentChanges::SortedPtr RecentChanges::end() noexcept { return std::exchange(closed_, Layer{}).sorted; }

std::uint64_t RecentChanges::Layer::bytes() const noexcept {
  return (table == nullptr ? 0 : table->bytes()) +
         (sorted == nullptr ? 0 : sorted->changes.size() * sizeof(Change));
}

// --- ranges

RecentChanges::AllSeen RecentChanges::see() {
  AllSeen seen;
  seen[0] = {open_.table, open_.table->freeze(), open_.sorted};
  if (closed_.table != nullptr) seen[1] = {closed_.table, closed_.table->changes(), closed_.sorted};
  return seen;
}

RecentChanges::SortedPtr RecentChanges::keep(const Seen& seen) {
  for (Layer* const layer : {&open_, &closed_})
    if (layer->table == seen.table && (layer->sorted == nullptr || layer->sorted->count < seen.sorted->count))
      return std::exchange(layer->sorted, seen.sorted);
  return nullptr;
}

bool RecentChanges::Seen::sort() {
  const std::size_t before = sorted == nullptr ? 0 : sorted->count;
  if (changes.size() - before < std::max(sort_least, before / sort_part)) return false;
  auto all = std::make_shared<Sorted>();
  all->count = changes.size();
  all->changes = in_order(unsorted());
  if (sorted != nullptr) {
    const std::vector<Change> added = std::exchange(all->changes, {});
    all->changes.reserve(added.size() + sorted->changes.size());
    // Of equal keys set_union takes the one of the first range.
    std::ranges::set_union(added, sorted->changes, std::back_inserter(all->changes), std::less<>());
  }
  sorted = std::move(all);
  return true;
}

RecentRange::RecentRange(RecentChanges::AllSeen seen, std::string_view from, std::string_view until)
    : seen_(std::move(seen)) {
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    std::vector<ChangeTable::Change> within;
    std::ranges::copy_if(seen_[i].unsorted(), std::back_inserter(within),
                         [&](const auto& change) { return change.is_within(from, until); });
    sorted_here_[i] = in_order(within);
    runs_[2 * i] = sorted_here_[i];
    if (seen_[i].sorted == nullptr) continue;
    const auto& all = seen_[i].sorted->changes;
    const auto key = &ChangeTable::Change::key;
    const auto first = std::ranges::lower_bound(all, from, {}, key);
    runs_[2 * i + 1] = Run(first, std::ranges::lower_bound(first, all.end(), until, {}, key));
  }
  find_least();
}

void RecentRange::find_least() noexcept {
  now_ = nullptr;
  for (const Run& run : runs_)
    if (!run.empty() && (now_ == nullptr || run.front() < *now_)) now_ = run.data();
}

void RecentRange::next() noexcept {
  const std::string_view over = now_->key();
  for (Run& run : runs_)
    if (!run.empty() && run.front().key() == over) run = run.subspan(1);
  find_least();
}

std::vector<ChangeTable::Change> in_order(std::span<const ChangeTable::Change> changes) {
  std::vector<Numbered> numbered;
  numbered.reserve(changes.size());
  for (const ChangeTable::Change& change : changes) numbered.push_back({change, numbered.size()});
  std::ranges::sort(numbered, std::less<>());
  std::vector<ChangeTable::Change> sorted;
  sorted.reserve(numbered.size());
  for (std::size_t i = 0; i < numbered.size(); ++i)
    if (i + 1 == numbered.size() || numbered[i].change < numbered[i + 1].change)
      sorted.push_back(numbered[i].change);
  return sorted;
}

}  // namespace cairn::store
