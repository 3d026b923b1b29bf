// CacheStripe: a part of the cache's table, under one lock: groups by address and number, objects by address,
// and the queues that say which group is evicted next. All groups of an object are in one stripe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mix.h"
#include "store/cache_policy.h"
#include "store/cache_slots.h"

namespace cairn::store {

// Shared by the groups of an object while at least one of them is in the table.
struct CachedObject {
  Address address;
  std::uint64_t hash = 0;
  CachedObject* chain = nullptr;
  List<CacheSlot, ObjectLink> groups;
  std::shared_ptr<const ObjectFacts> facts;
};

// The key of a group in the tables.
constexpr std::uint64_t group_hash(std::uint64_t object, std::uint64_t group) noexcept {
  return mix(object ^ (group * 0xa0761d6478bd642fu), 0xe7037ed1a0b428dbu);
}

class CacheStripe {
 public:
  CacheStripe() = default;
  ~CacheStripe();  // CHECKs that it is empty
  CacheStripe(const CacheStripe&) = delete;
  CacheStripe& operator=(const CacheStripe&) = delete;

  static std::uint64_t bytes_for(std::uint64_t entries) noexcept;
  void prepare(std::uint64_t entries);

  // With a reference for the caller.
  CacheSlot* find(std::uint64_t hash, const Address& address, std::uint64_t group) noexcept {
    CacheSlot* slot = look_up(hash, address, group);
    if (slot == nullptr) return nullptr;
    slot->refs.fetch_add(1, std::memory_order_relaxed);
    if (slot->frequency < 3) ++slot->frequency;
    return slot;
  }
  std::shared_ptr<const ObjectFacts> find_facts(std::uint64_t object_hash, const Address& address) noexcept {
    const CachedObject* object = find_object(object_hash, address);
    return object == nullptr ? nullptr : object->facts;
  }
  // Puts the slot in the table, which takes a reference of its own. Does nothing when the group is there
  // already, when `epoch` has passed, or when there is no memory for a node.
  void insert(CacheSlot& slot, std::uint64_t object_hash, std::uint64_t epoch) noexcept;
  // Evicts a group that is not held and gives it with the table's reference. nullptr when this stripe has
  // less than `least` bytes of the kind.
  CacheSlot* evict(SlotKind kind, std::uint64_t least, unsigned& looks) noexcept;
  // Evicts the group of this slot before its turn, if the group has this hash, is in this stripe and is one
  // of `which`. True: it did, and the table's reference is the caller's.
  bool evict_early(std::uint64_t hash, const CacheSlot* sought, Early which) noexcept;
  // Up to `limit` groups of an object, chained, with the table's references.
  CacheSlot* erase(std::uint64_t object_hash, const Address& address, unsigned limit) noexcept;
  // One group of any object, with the table's reference.
  CacheSlot* take_any() noexcept;

  // Large groups are few, so their ghost remembers few misses: twice as many as the arena holds groups.
  Ghost& ghost(SlotKind kind) noexcept { return ghosts_[static_cast<std::size_t>(kind)]; }
  std::uint64_t epoch = 0;

 private:
  GroupQueue& queue(SlotKind kind) noexcept { return queues_[static_cast<std::size_t>(kind)]; }
  CacheSlot* look_up(std::uint64_t hash, const Address& address, std::uint64_t group) noexcept {
    for (CacheSlot* slot = groups_[hash & mask_]; slot != nullptr; slot = slot->chain) {
      if (slot->hash == hash && slot->group == group && slot->address == address) return slot;
    }
    return nullptr;
  }
  CachedObject* find_object(std::uint64_t hash, const Address& address) noexcept;
  CachedObject* add_object(const CacheSlot& slot, std::uint64_t hash) noexcept;
  void leave(CacheSlot& slot) noexcept;

  std::uint64_t mask_ = 0;
  std::vector<CacheSlot*> groups_;
  std::vector<CachedObject*> objects_;
  std::array<GroupQueue, 2> queues_;
  std::array<Ghost, 2> ghosts_;
  std::uint64_t count_ = 0;
};

}  // namespace cairn::store
