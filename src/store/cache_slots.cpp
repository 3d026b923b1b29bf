#include "store/cache_slots.h"

#include <algorithm>
#include <bit>
#include <new>
#include <optional>

namespace cairn::store {
namespace {

constexpr std::size_t least_class = 1024;
constexpr std::align_val_t alignment{alignof(CacheSlot)};

// Memory of an entry beside its slot: the object's node and the facts with strings of a usual length. Counted
// for every group, although the groups of an object share it: which of them goes last is not known.
constexpr std::uint32_t usual_strings = 160;
constexpr std::uint32_t node_bytes = 256 + usual_strings;

std::size_t class_of(std::size_t size) noexcept { return std::bit_ceil(std::max(size, least_class)); }
constexpr std::size_t slot_of(SlotKind kind) noexcept { return static_cast<std::size_t>(kind); }

// A small arena has no slot to spare for the sake of order.
constexpr std::uint32_t least_orderly = 1024;
constexpr std::uint32_t slack_share = 16;

constexpr std::size_t least_for_huge = std::size_t{32} << 20;  // of an arena
constexpr std::uint32_t most_ready = 8;                        // large pages made ahead,
constexpr std::uint32_t ready_share = 16;                      // and of all blocks

static_assert(io::Arena::block == SlotRows::block_slots * GroupCache::group_bytes);

std::uint32_t ready_for(std::size_t arena) noexcept {
  if (arena < least_for_huge) return 0;
  return static_cast<std::uint32_t>(
      std::clamp<std::size_t>(arena / io::Arena::block / ready_share, 1, most_ready));
}

}  // namespace

SlotPool::SlotPool(std::unique_ptr<io::Arena> arena, std::uint64_t capacity, std::uint64_t tables)
    : arena_(std::move(arena)),
      capacity_(capacity),
      slot_count_(static_cast<std::uint32_t>(arena_->size() / GroupCache::group_bytes)),
      slack_(slot_count_ < least_orderly ? 0 : slot_count_ / slack_share),
      ready_most_(ready_for(arena_->size())),
      books_(slot_count_) {
  slots_ = std::make_unique<CacheSlot[]>(slot_count_);
  whereabouts_ = std::make_unique<std::atomic<std::uint64_t>[]>(slot_count_);
  for (std::uint32_t i = 0; i < slot_count_; ++i) {
    slots_[i].kind = SlotKind::arena;
    slots_[i].index = i;
    slots_[i].data = arena_->data() + i * GroupCache::group_bytes;
  }
  books_.with([&](Books& books) {
    // The nodes of the arena's entries are committed from the start: then a slot costs its pages only.
    fixed_ = tables + SlotRows::bytes_for(slot_count_) +
             slot_count_ * (sizeof(CacheSlot) + sizeof(whereabouts_[0]) + node_bytes);
    books.committed = fixed_;
    CHECK(books.committed + arena_->size() <= capacity_);
    books.asked = ready_most_;
  });
}

SlotPool::~SlotPool() {
  books_.with([&](Books& books) {
    CHECK(books.used[0] == 0 && books.used[1] == 0);
    CHECK(books.rows.free() + books.rows.resting() + books.rows.stale() * SlotRows::block_slots ==
          slot_count_);
    CHECK(books.committed == fixed_ + books.rows.with_memory() * GroupCache::group_bytes);  // CS-1
  });
}

SlotPool::Taken SlotPool::take(std::size_t size, const SlotRows::Want& want, bool anywhere) noexcept {
  CHECK(size <= GroupCache::group_bytes);
  Taken taken = kind_for(size) == SlotKind::arena ? take_arena(want, anywhere) : take_heap(size);
  if (taken.slot == nullptr) return taken;
  taken.slot->size = static_cast<std::uint32_t>(size);
  taken.slot->frequency = 0;
  taken.slot->refs.store(1, std::memory_order_relaxed);
  return taken;
}

SlotPool::Found SlotPool::find_place(Books& books, const SlotRows::Want& want, bool anywhere) noexcept {
  SlotRows& rows = books.rows;
  Found found;
  const bool room = books.committed + GroupCache::group_bytes <= capacity_;
  const bool memory = room || rows.has_spare();
  const std::uint32_t ready = rows.ready();
  if (anywhere || rows.free() >= slack_ || rows.fits(want)) found.place = rows.take(want, !memory);
  if (!found.place) {
    found.stale = rows.find_stale();
    if (found.stale) rows.take_block(*found.stale);
    return found;
  }
  if (rows.ready() < ready) books.asked = std::min(books.asked + 1, ready_most_);
  if (want.count > 1 && !rows.is_huge(block_of(found.place->index))) books.asked = ready_most_;
  if (found.place->memory == SlotRows::Memory::none) {
    if (room)
      books.committed += GroupCache::group_bytes;
    else
      found.spare = rows.take_spare();
    CHECK(room || found.spare);  // CS-1
  }
  return found;
}

SlotPool::Taken SlotPool::take_arena(const SlotRows::Want& want, bool anywhere) noexcept {
  constexpr std::uint32_t charge = GroupCache::group_bytes + sizeof(CacheSlot) + node_bytes;
  Taken taken;
  Found found;
  for (;;) {
    books_.with([&](Books& books) {
      found = find_place(books, want, anywhere);
      if (found.place) {
        taken.slot = &slots_[found.place->index];
        taken.slot->charge = charge;
        books.used[slot_of(SlotKind::arena)] += charge;
        note(books);
      } else if (!found.stale) {
        // A slot without memory is free only because the heap has more than its own part.
        const bool memory = books.committed + GroupCache::group_bytes <= capacity_ || books.rows.has_spare();
        taken.wanted = memory || books.rows.free() == 0 ? SlotKind::arena : SlotKind::heap;
        taken.used = books.used[slot_of(taken.wanted)];
      }
    });
    if (!found.stale) break;
    dispose({.index = *found.stale, .block = true}, 0);
  }
  if (found.place && found.place->memory == SlotRows::Memory::sent) punch(found.place->index);
  if (found.spare) dispose(*found.spare, GroupCache::group_bytes);
  return taken;
}

SlotPool::Taken SlotPool::take_heap(std::size_t size) noexcept {
  const auto whole = static_cast<std::uint32_t>(sizeof(CacheSlot) + class_of(size));
  const std::uint32_t charge = whole + node_bytes;
  for (;;) {
    Taken taken{.slot = nullptr, .wanted = SlotKind::heap, .used = 0};
    bool room = false;
    std::optional<SlotRows::Spare> spare;
    books_.with([&](Books& books) {
      room = books.committed + charge <= capacity_;
      if (room) {
        books.committed += charge;
        books.used[slot_of(SlotKind::heap)] += charge;
        note(books);
        return;
      }
      spare = books.rows.take_spare();
      taken.used = books.used[slot_of(SlotKind::heap)];
    });
    if (spare) {
      dispose(*spare, 0);
      continue;
    }
    if (!room) return taken;
    void* memory = ::operator new(whole, alignment, std::nothrow);
    if (memory == nullptr) {
      books_.with([&](Books& books) {
        books.committed -= charge;
        books.used[slot_of(SlotKind::heap)] -= charge;
        note(books);
      });
      return taken;
    }
    taken.slot = new (memory) CacheSlot;
    taken.slot->data = static_cast<std::byte*>(memory) + sizeof(CacheSlot);
    taken.slot->charge = charge;
    return taken;
  }
}

bool SlotPool::charge_facts(CacheSlot& slot, const ObjectFacts& facts) noexcept {
  const std::uint64_t strings = facts.media_type.capacity() + facts.etag.capacity();
  if (strings > GroupCache::group_bytes) return false;  // longer than any real media type
  const std::uint32_t more =
      strings > usual_strings ? static_cast<std::uint32_t>(strings) - usual_strings : 0;
  return books_.with([&](Books& books) {
    CHECK(books.committed <= capacity_ && used() <= books.committed);  // CS-1
    if (books.committed + more > capacity_) return false;
    slot.charge += more;
    slot.long_facts = more;
    books.committed += more;
    books.used[slot_of(slot.kind)] += more;
    note(books);
    return true;
  });
}

void SlotPool::punch(std::uint32_t index) noexcept {
  arena_->punch(index * GroupCache::group_bytes, GroupCache::group_bytes);
  slots_[index].sent.store(false, std::memory_order_relaxed);
}

void SlotPool::punch_block(std::uint32_t block) noexcept {
  arena_->punch(block * io::Arena::block, io::Arena::block);
  for (std::uint32_t i = 0; i < SlotRows::block_slots; ++i)
    slots_[block * SlotRows::block_slots + i].sent.store(false, std::memory_order_relaxed);
}

void SlotPool::dispose(const SlotRows::Spare& spare, std::uint64_t passed_on) noexcept {
  if (spare.block)
    punch_block(spare.index);
  else
    punch(spare.index);
  books_.with([&](Books& books) {
    if (spare.block)
      books.rows.give_block(spare.index, false);
    else
      books.rows.give(spare.index, SlotRows::Memory::none);
    books.committed -= (spare.block ? io::Arena::block : GroupCache::group_bytes) - passed_on;
  });
}

void SlotPool::release(CacheSlot* slot) noexcept {
  slot->facts.reset();
  const bool arena = slot->kind == SlotKind::arena;
  books_.with([&](Books& books) {
    books.used[slot_of(slot->kind)] -= slot->charge;
    books.committed -= arena ? slot->long_facts : slot->charge;
    slot->long_facts = 0;
    if (arena) {
      const bool sent = slot->sent.load(std::memory_order_relaxed);
      books.rows.give(slot->index, sent ? SlotRows::Memory::sent : SlotRows::Memory::warm);
    }
    note(books);
  });
  if (arena) return;
  std::destroy_at(slot);
  ::operator delete(slot, alignment);
}

void SlotPool::note(const Books& books) noexcept {
  used_.store(books.used[0] + books.used[1], std::memory_order_relaxed);
}

}  // namespace cairn::store
