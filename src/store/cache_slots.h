// SlotPool: the memory of the cache and its books.
//
//   [CS-1] Committed memory (tables, arena pages that hold memory, heap) never exceeds the capacity.
//   [CS-2] A slot that was sent by file is punched out before it is given out again. A slot in a large page
//         waits until all of the page is punched.
// The part of the arena that holds no memory is lent to the heap, and taken back slot by slot. So a store of
// small objects uses the whole capacity, and so does a store of large ones. Groups of one object lie side by
// side where that is possible (SlotRows). In a large arena the parts of objects lie in large pages, which are
// made ahead of them. A small arena has too few slots to let them rest.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/guarded.h"
#include "runtime/list.h"
#include "store/cache_slots_rows.h"
#include "store/group_cache.h"
#include "store/locks.h"

namespace cairn::store {

enum class SlotKind : std::uint8_t { arena, heap };
constexpr SlotKind kind_for(std::size_t size) noexcept {
  return size >= GroupCache::group_bytes / 2 ? SlotKind::arena : SlotKind::heap;
}
struct CachedObject;

struct QueueLink : Link {};
struct ObjectLink : Link {};

// One group: its key and links, and its memory. Key and links belong to the stripe and are under its lock
// while the group is in the table. The fields that a lookup reads are in the first cache line.
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
  // With one reference; the caller fills in the key. A large arena that is nearly full has no slot for the
  // first group of a part until something is evicted, unless the whole part fits or `anywhere` is set.
  Taken take(std::size_t size, const SlotRows::Want& want, bool anywhere = false) noexcept;
  // Whether eviction should make room for groups side by side.
  bool keeps_rows() const noexcept { return slack_ > 0; }
  // Where the group in this slot of the arena was to be found when it came: a hint that needs no lock.
  std::atomic<std::uint64_t>& whereabouts(std::uint32_t index) noexcept { return whereabouts_[index]; }
  CacheSlot* slot_at(std::uint32_t index) noexcept { return index < slot_count_ ? &slots_[index] : nullptr; }
  // Whether parts lie in large pages, as far as they can be had.
  bool keeps_blocks() const noexcept { return ready_most_ > 0; }
  enum class Made : std::uint8_t { enough, one, none, no_block };
  // Makes a block a large page for parts to come, if more of them are wanted. `none`: the kernel has none to
  // give now; a later call asks again. `no_block`: groups must be evicted first. Blocks for milliseconds.
  Made make_block() noexcept;
  // Whether make_block() is worth an attempt now.
  bool wants_block() noexcept;
  // The block of small pages or the large page that the slot lies in; and whether it is a large one.
  static std::uint32_t block_of(std::uint32_t index) noexcept { return index / SlotRows::block_slots; }
  bool is_huge(std::uint32_t block) noexcept;
  // Whether a group in the block is held: then evicting the others does not free the block.
  bool is_held(std::uint32_t block) const noexcept;
  // When too many slots rest: the block that is the easiest to free.
  std::optional<std::uint32_t> overdue_block() noexcept;
  struct Blocks {
    std::uint32_t huge = 0, ready = 0;  // large pages; those with no slot given out
    std::uint32_t resting = 0;          // slots
  };
  Blocks blocks() noexcept;

  // Charges what `facts` take beyond the usual; false when there is no room for it.
  bool charge_facts(CacheSlot& slot, const ObjectFacts& facts) noexcept;
  // Gives one reference back; the last one frees the slot.
  void drop(CacheSlot* slot) noexcept {
    if (slot->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) release(slot);
  }

  io::Arena& arena() noexcept { return *arena_; }
  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::uint64_t used(SlotKind kind) noexcept;
  std::uint64_t capacity() const noexcept { return capacity_; }

 private:
  struct Books {
    explicit Books(std::uint32_t slots) : rows(slots) {}
    SlotRows rows;
    std::uint64_t committed = 0;
    std::array<std::uint64_t, 2> used{};  // by kind
    std::uint32_t asked = 0;              // large pages that parts took, or would have, since they were made
    unsigned failures = 0;                // to make one, without a success since
    std::uint32_t skipped = 0;            // attempts, because of those
  };
  Taken take_arena(const SlotRows::Want& want, bool anywhere) noexcept;
  Taken take_heap(std::size_t size) noexcept;
  // A slot for which there is memory, and what must be done for it outside of the lock.
  struct Found {
    std::optional<SlotRows::Place> place;
    std::optional<SlotRows::Spare> spare;  // gives the place its memory
    std::optional<std::uint32_t> stale;    // no place before this one is punched
  };
  Found find_place(Books& books, const SlotRows::Want& want, bool anywhere) noexcept;
  bool wants_block(const Books& books) const noexcept;
  void punch(std::uint32_t index) noexcept;
  void punch_block(std::uint32_t block) noexcept;
  // Punches what take_spare() gave and gives it back without memory. `passed_on` of it stays committed.
  void dispose(const SlotRows::Spare& spare, std::uint64_t passed_on) noexcept;
  void release(CacheSlot* slot) noexcept;
  void note(const Books& books) noexcept;

  std::unique_ptr<io::Arena> arena_;
  std::uint64_t capacity_;
  std::uint64_t fixed_ = 0;             // of what is committed: tables
  std::unique_ptr<CacheSlot[]> slots_;  // of the arena
  std::unique_ptr<std::atomic<std::uint64_t>[]> whereabouts_;
  std::uint32_t slot_count_;
  std::uint32_t slack_;       // free slots that are worth finding a whole row
  std::uint32_t ready_most_;  // large pages that are made ahead
  std::atomic<std::uint64_t> used_{0};
  Guarded<Books, cache_slots_lock.rank> books_;
};

}  // namespace cairn::store
