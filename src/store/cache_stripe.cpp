#include "store/cache_stripe.h"

#include <algorithm>
#include <bit>
#include <new>

namespace cairn::store {
namespace {

std::uint64_t buckets_for(std::uint64_t entries) noexcept {
  return std::bit_ceil(std::max<std::uint64_t>(entries, 16));
}

// A ghost remembers twice as many groups as there may be of its kind; the table is made for groups of 4 KiB.
std::uint64_t ghosts_for(std::uint64_t entries, SlotKind kind) noexcept {
  return kind == SlotKind::arena ? std::max<std::uint64_t>(2 * entries / 16, 16) : 2 * entries;
}

// Takes `item` out of the chain that starts at `at`.
template <class T>
void unchain(T** at, T* item) noexcept {
  while (*at != item) at = &(*at)->chain;
  *at = item->chain;
  item->chain = nullptr;
}

}  // namespace

CacheStripe::~CacheStripe() { CHECK(count_ == 0); }

std::uint64_t CacheStripe::bytes_for(std::uint64_t entries) noexcept {
  return sizeof(CacheStripe) + buckets_for(entries) * (sizeof(CacheSlot*) + sizeof(CachedObject*)) +
         Ghost::bytes_for(ghosts_for(entries, SlotKind::arena)) +
         Ghost::bytes_for(ghosts_for(entries, SlotKind::heap));
}

void CacheStripe::prepare(std::uint64_t entries) {
  groups_.resize(buckets_for(entries));
  objects_.resize(buckets_for(entries));
  mask_ = groups_.size() - 1;
  for (const SlotKind kind : {SlotKind::arena, SlotKind::heap})
    ghost(kind).prepare(ghosts_for(entries, kind));
}

void CacheStripe::insert(CacheSlot& slot, std::uint64_t object_hash, std::uint64_t as_of) noexcept {
  if (as_of != epoch) return;
  if (look_up(slot.hash, slot.address, slot.group) != nullptr) return;
  CachedObject* object = find_object(object_hash, slot.address);
  if (object == nullptr) object = add_object(slot, object_hash);
  if (object == nullptr) return;
  slot.object = object;
  slot.facts = object->facts;
  object->groups.push_back(slot);
  CacheSlot*& bucket = groups_[slot.hash & mask_];
  slot.chain = bucket;
  bucket = &slot;
  slot.refs.fetch_add(1, std::memory_order_relaxed);
  queue(slot.kind).add(slot, ghost(slot.kind).was_evicted(slot.hash));
  ++count_;
}

CacheSlot* CacheStripe::evict(SlotKind kind, std::uint64_t least, unsigned& looks) noexcept {
  if (queue(kind).bytes() < least) return nullptr;
  CacheSlot* slot = queue(kind).evict(ghost(kind), looks);
  if (slot != nullptr) leave(*slot);
  return slot;
}

bool CacheStripe::evict_early(std::uint64_t hash, const CacheSlot* sought, Early which) noexcept {
  CacheSlot* slot = groups_[hash & mask_];
  while (slot != nullptr && slot != sought) slot = slot->chain;
  if (slot == nullptr || !queue(slot->kind).evict_early(*slot, ghost(slot->kind), which)) return false;
  leave(*slot);
  return true;
}

CacheSlot* CacheStripe::erase(std::uint64_t object_hash, const Address& address, unsigned limit) noexcept {
  CachedObject* object = find_object(object_hash, address);
  if (object == nullptr) return nullptr;
  CacheSlot* erased = nullptr;
  for (bool last = false; !last && limit > 0; --limit) {
    CacheSlot& slot = object->groups.front();
    queue(slot.kind).remove(slot);
    // The last group takes the object with it. It is the last if both its neighbours are the list's head.
    last = static_cast<ObjectLink&>(slot).next == static_cast<ObjectLink&>(slot).prev;
    leave(slot);
    slot.chain = erased;
    erased = &slot;
  }
  return erased;
}

CacheSlot* CacheStripe::take_any() noexcept {
  for (GroupQueue& from : queues_) {
    CacheSlot* slot = from.first();
    if (slot == nullptr) continue;
    from.remove(*slot);
    leave(*slot);
    return slot;
  }
  return nullptr;
}

CachedObject* CacheStripe::find_object(std::uint64_t hash, const Address& address) noexcept {
  CachedObject* object = objects_[hash & mask_];
  while (object != nullptr && object->address != address) object = object->chain;
  return object;
}

CachedObject* CacheStripe::add_object(const CacheSlot& slot, std::uint64_t hash) noexcept {
  auto* object = new (std::nothrow) CachedObject;
  if (object == nullptr) return nullptr;
  object->address = slot.address;
  object->hash = hash;
  object->facts = slot.facts;
  object->chain = objects_[hash & mask_];
  objects_[hash & mask_] = object;
  return object;
}

// Takes the slot out of the table; it left the queue before. The object goes with its last group.
void CacheStripe::leave(CacheSlot& slot) noexcept {
  unchain(&groups_[slot.hash & mask_], &slot);
  CachedObject* object = std::exchange(slot.object, nullptr);
  static_cast<ObjectLink&>(slot).unlink();
  --count_;
  if (!object->groups.empty()) return;
  unchain(&objects_[object->hash & mask_], object);
  delete object;
}

}  // namespace cairn::store
