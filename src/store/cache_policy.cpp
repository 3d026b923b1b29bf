#include "store/cache_policy.h"

#include <algorithm>
#include <bit>

namespace cairn::store {

std::uint64_t Ghost::sets_for(std::uint64_t entries) noexcept {
  return std::bit_ceil(std::max<std::uint64_t>(1, entries / std::tuple_size_v<Set>));
}

std::uint64_t Ghost::bytes_for(std::uint64_t entries) noexcept { return sets_for(entries) * sizeof(Set); }

void Ghost::prepare(std::uint64_t entries) { sets_.resize(sets_for(entries)); }

std::uint32_t Ghost::fingerprint(std::uint64_t hash) noexcept {
  return std::max<std::uint32_t>(2, static_cast<std::uint32_t>(hash >> 32) & ~evicted);
}

const std::uint32_t* Ghost::find(const Set& set, std::uint64_t hash) noexcept {
  const std::uint32_t sought = fingerprint(hash);
  for (const std::uint32_t& mark : set) {
    if ((mark & ~evicted) == sought) return &mark;
  }
  return nullptr;
}

void Ghost::push(Set& set, std::uint32_t mark) noexcept {
  std::shift_right(set.begin(), set.end(), 1);
  set[0] = mark;
}

bool Ghost::was_evicted(std::uint64_t hash) const noexcept {
  const std::uint32_t* mark = find(sets_[set_of(hash)], hash);
  return mark != nullptr && (*mark & evicted) != 0;
}

bool Ghost::remember_missed(std::uint64_t hash) noexcept {
  Set& set = sets_[set_of(hash)];
  if (find(set, hash) != nullptr) return true;
  push(set, fingerprint(hash));
  return false;
}

void Ghost::remember_evicted(std::uint64_t hash) noexcept {
  Set& set = sets_[set_of(hash)];
  // If its miss is still known, that mark gives its place.
  if (const std::uint32_t* mark = find(set, hash)) {
    std::shift_left(set.begin() + (mark - set.data()), set.end(), 1);
  }
  push(set, fingerprint(hash) | evicted);
}

void GroupQueue::add(CacheSlot& slot, bool to_main) noexcept {
  slot.in_main = to_main;
  (to_main ? main_ : small_).push_back(slot);
  (to_main ? main_bytes_ : small_bytes_) += slot.charge;
  ++count_;
}

void GroupQueue::remove(CacheSlot& slot) noexcept {
  static_cast<QueueLink&>(slot).unlink();
  (slot.in_main ? main_bytes_ : small_bytes_) -= slot.charge;
  --count_;
}

CacheSlot* GroupQueue::first() noexcept {
  if (count_ == 0) return nullptr;
  return &(small_.empty() ? main_ : small_).front();
}

CacheSlot& GroupQueue::take_oldest(bool from_small) noexcept {
  CacheSlot& slot = (from_small ? small_ : main_).front();
  remove(slot);
  return slot;
}

bool GroupQueue::may_go(const CacheSlot& slot) noexcept {
  // A reference can only be added under the stripe's lock, which we hold: a group that is not held stays so.
  if (slot.refs.load(std::memory_order_acquire) > 1) return false;
  // One hit shortly after the group came is mostly the same reader again.
  return slot.frequency <= (slot.in_main ? 0 : 1);
}

bool GroupQueue::evict_early(CacheSlot& slot, Ghost& ghost, Early which) noexcept {
  const bool due = may_go(slot);
  if (which == Early::all ? slot.refs.load(std::memory_order_acquire) > 1 : !due) return false;
  if (which == Early::passing && slot.in_main) return false;
  remove(slot);
  if (!slot.in_main || !due) ghost.remember_evicted(slot.hash);
  return true;
}

CacheSlot* GroupQueue::evict(Ghost& ghost, unsigned& looks) noexcept {
  std::uint64_t held = 0;
  for (; looks > 0 && held < count_; --looks) {
    const bool from_small = !small_.empty() && (main_.empty() || small_bytes_ * 10 >= bytes());
    CacheSlot& slot = take_oldest(from_small);
    if (may_go(slot)) {
      if (from_small) ghost.remember_evicted(slot.hash);
      return &slot;
    }
    if (slot.refs.load(std::memory_order_relaxed) > 1) ++held;
    if (from_small) {
      slot.frequency = 0;
    } else if (slot.frequency > 0) {
      --slot.frequency;
    }
    add(slot, true);
  }
  return nullptr;
}

}  // namespace cairn::store
