#include "store/change_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/mix.h"

namespace cairn::store {
namespace {

constexpr std::size_t piece_size = 64u << 10;
constexpr std::size_t slots_least = 64;

std::uint32_t word_of(std::string_view key, std::uint64_t seed) noexcept {
  return static_cast<std::uint32_t>(hash_of(key, seed));
}

}  // namespace

std::uint64_t ChangeTable::first_of(std::string_view key) noexcept {
  std::array<unsigned char, 8> first{};
  std::memcpy(first.data(), key.data(), std::min(first.size(), key.size()));
  return std::byteswap(std::bit_cast<std::uint64_t>(first));
}

// Where the key is, or would be.
std::size_t ChangeTable::place_of(std::string_view key, std::uint32_t word) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t place = word & mask;
  for (; slots_[place].number != 0; place = (place + 1) & mask)
    if (slots_[place].word == word && changes_[slots_[place].number - 1].key() == key) break;
  return place;
}

const ChangeTable::Change* ChangeTable::find(std::string_view key) const noexcept {
  if (slots_.empty()) return nullptr;
  const Slot& slot = slots_[place_of(key, word_of(key, seed_))];
  return slot.number == 0 ? nullptr : &changes_[slot.number - 1];
}

void ChangeTable::set(std::string_view key, std::optional<std::string_view> value) {
  CHECK(key.size() < Change::removed && value.value_or("").size() < Change::removed);
  if (2 * (changes_.size() + 1) > slots_.size()) resize(std::max(slots_least, 2 * slots_.size()));
  const std::uint32_t word = word_of(key, seed_);
  Slot& slot = slots_[place_of(key, word)];
  if (slot.number <= frozen_) {  // none, or one that stays as it is
    slot = {word, static_cast<std::uint32_t>(changes_.size() + 1)};
    Change& change = append_change();
    change.first_ = first_of(key);
    change.bytes_ = append(key, value.value_or(""));
    change.key_size_ = static_cast<std::uint32_t>(key.size());
    bytes_ += sizeof(Change) + 2 * sizeof(Slot);
    if (value) change.value_size_ = static_cast<std::uint32_t>(value->size());
    return;
  }
  Change& change = changes_[slot.number - 1];
  if (value && change.value_size_ != Change::removed && value->size() <= change.value_size_)
    std::copy(value->begin(), value->end(), change.bytes_ + change.key_size_);
  else if (value)
    change.bytes_ = append(key, *value);
  change.value_size_ = value ? static_cast<std::uint32_t>(value->size()) : Change::removed;
}

ChangeTable::Change& ChangeTable::append_change() {
  if (frozen_ > 0 && changes_.size() == changes_.capacity()) {
    std::vector<Change> larger;
    larger.reserve(2 * changes_.size());
    larger.assign(changes_.begin(), changes_.end());
    outgrown_.push_back(std::exchange(changes_, std::move(larger)));
  }
  return changes_.emplace_back();
}

void ChangeTable::expect(std::size_t count) {
  changes_.reserve(count);
  if (2 * count > slots_.size()) resize(std::bit_ceil(std::max(slots_least, 2 * count)));
}

void ChangeTable::resize(std::size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.number == 0) continue;
    std::size_t place = slot.word & (slots - 1);
    while (slots_[place].number != 0) place = (place + 1) & (slots - 1);
    slots_[place] = slot;
  }
}

char* ChangeTable::append(std::string_view key, std::string_view value) {
  const std::size_t size = key.size() + value.size();
  if (size > left_) {
    left_ = std::max(size, piece_size);
    next_ = pieces_.emplace_back(std::make_unique_for_overwrite<char[]>(left_)).get();
  }
  char* const at = next_;
  std::copy(value.begin(), value.end(), std::copy(key.begin(), key.end(), at));
  next_ += size;
  left_ -= size;
  bytes_ += size;
  return at;
}

}  // namespace cairn::store
