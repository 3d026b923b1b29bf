// SlotPool: the memory of the cache and its books.
//
//   [S-1] What is committed (tables, arena pages that hold memory, heap) never exceeds the capacity.
//   [S-2] A slot that was sent by file is punched out before anybody gets it again.
// The arena's part that holds no memory is lent to the heap, and taken back from it slot by slot: a store of
// small objects uses the whole capacity, and so does one of large ones. Groups of one object lie side by side
// where that is possible (SlotRows).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/guarded.h"
#include "runtime/list.h"
#include "store/cache_slots_rows.h"
#include "store/group_cache.h"

namespace cairn::store {

inline constexpr unsigned cache_stripe_rank = 20;
inline constexpr unsigned cache_slots_rank = 21;

enum class SlotKind : std::uint8_t { arena, heap };
constexpr SlotKind kind_for(std::size_t size) noexcept {
  return size >= GroupCache::group_bytes / 2 ? SlotKind::arena : SlotKind::heap;
}
struct CachedObject;

struct QueueLink : Link {};
struct ObjectLink : Link {};

// One group: its key and links (of the stripe, under its lock while it is in the table), and its memory. What
// a lookup reads is in the first cache line.
struct alignas(64) GroupCache::Slot : QueueLink, ObjectLink {
  alignas(64) std::atomic<std::uint32_t> refs{0};  // one is the table's, while it is there
  std::uint8_t frequency = 0;                      // hits, up to 3, since the queue looked at it
  bool in_main = false;
  SlotKind kind = SlotKind::heap;
  std::atomic<bool> sent{false};  // by file: its pages may be in a socket
  std::uint64_t hash = 0;
  std::uint64_t group = 0;
  Address address;
  Slot* chain = nullptr;  // in its bucket, or of what was just taken out

  std::byte* data = nullptr;
  std::uint32_t size = 0;
  std::uint32_t index = 0;       // in the arena
  std::uint32_t charge = 0;      // in bytes()
  std::uint32_t long_facts = 0;  // the part of `charge` beyond what was reserved
  std::uint64_t object_hash = 0;
  std::shared_ptr<const ObjectFacts> facts;
  CachedObject* object = nullptr;
  State* state = nullptr;
};
using CacheSlot = GroupCache::Slot;
static_assert(sizeof(CacheSlot) == 192);

class SlotPool {
 public:
  // `tables`: what the caller's own tables take of the capacity.
  SlotPool(std::unique_ptr<io::Arena> arena, std::uint64_t capacity, std::uint64_t tables);
  ~SlotPool();  // CHECKs that everything came back

  struct Taken {
    CacheSlot* slot = nullptr;
    SlotKind wanted = SlotKind::arena;  // what to evict when there is no slot
    std::uint64_t used = 0;             // by all groups of that kind
  };
  // With one reference; the key is for the caller to fill in. A large arena that is nearly full gives the
  // first group of a part nothing before something is evicted, unless the part fits or `anywhere`.
  Taken take(std::size_t size, const SlotRows::Want& want, bool anywhere = false) noexcept;
  // Whether eviction should make room for groups side by side.
  bool keeps_rows() const noexcept { return slack_ > 0; }
  // Where the group of an arena's slot was to be found when it came: a hint that needs no lock.
  std::atomic<std::uint64_t>& whereabouts(std::uint32_t index) noexcept { return whereabouts_[index]; }
  CacheSlot* slot_at(std::uint32_t index) noexcept { return index < slot_count_ ? &slots_[index] : nullptr; }
  // Charges what `facts` take beyond the usual; false when there is no room for it.
  bool charge_facts(CacheSlot& slot, const ObjectFacts& facts) noexcept;
  // Gives one reference back; the last one frees the slot.
  void drop(CacheSlot* slot) noexcept {
    if (slot->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) release(slot);
  }

  io::Arena& arena() noexcept { return *arena_; }
  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::uint64_t capacity() const noexcept { return capacity_; }

 private:
  struct Books {
    explicit Books(std::uint32_t slots) : rows(slots) {}
    SlotRows rows;
    std::uint64_t committed = 0;
    std::array<std::uint64_t, 2> used{};  // by kind
  };
  Taken take_arena(const SlotRows::Want& want, bool anywhere) noexcept;
  Taken take_heap(std::size_t size) noexcept;
  void punch(std::uint32_t index) noexcept;
  void release(CacheSlot* slot) noexcept;
  void note(const Books& books) noexcept;

  std::unique_ptr<io::Arena> arena_;
  std::uint64_t capacity_;
  std::unique_ptr<CacheSlot[]> slots_;  // of the arena
  std::unique_ptr<std::atomic<std::uint64_t>[]> whereabouts_;
  std::uint32_t slot_count_;
  std::uint32_t slack_;  // free slots that are worth finding a whole row
  std::atomic<std::uint64_t> used_{0};
  Guarded<Books, cache_slots_rank> books_;
};

}  // namespace cairn::store
