#include "store/cache_slots.h"

#include <algorithm>
#include <bit>
#include <new>
#include <optional>

namespace cairn::store {
namespace {

constexpr std::size_t least_class = 1024;
constexpr std::align_val_t alignment{alignof(CacheSlot)};

// What an entry takes beside its slot: the object's node and the facts with strings of a usual length.
// Counted for every group although the groups of an object share it: which one comes last is not known.
constexpr std::uint32_t usual_strings = 160;
constexpr std::uint32_t node_bytes = 256 + usual_strings;

std::size_t class_of(std::size_t size) noexcept { return std::bit_ceil(std::max(size, least_class)); }
constexpr std::size_t slot_of(SlotKind kind) noexcept { return static_cast<std::size_t>(kind); }

// A small arena has no slot to spare for the sake of order.
constexpr std::uint32_t least_orderly = 1024;
constexpr std::uint32_t slack_share = 16;

}  // namespace

SlotPool::SlotPool(std::unique_ptr<io::Arena> arena, std::uint64_t capacity, std::uint64_t tables)
    : arena_(std::move(arena)),
      capacity_(capacity),
      slot_count_(static_cast<std::uint32_t>(arena_->size() / GroupCache::group_bytes)),
      slack_(slot_count_ < least_orderly ? 0 : slot_count_ / slack_share),
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
    books.committed = tables + SlotRows::bytes_for(slot_count_) +
                      slot_count_ * (sizeof(CacheSlot) + sizeof(whereabouts_[0]) + node_bytes);
    CHECK(books.committed + arena_->size() <= capacity_);
  });
}

SlotPool::~SlotPool() {
  books_.with([&](Books& books) {
    CHECK(books.used[0] == 0 && books.used[1] == 0);
    CHECK(books.rows.free() == slot_count_);
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

SlotPool::Taken SlotPool::take_arena(const SlotRows::Want& want, bool anywhere) noexcept {
  constexpr std::uint32_t charge = GroupCache::group_bytes + sizeof(CacheSlot) + node_bytes;
  Taken taken;
  bool sent = false;
  std::optional<std::uint32_t> spare;
  books_.with([&](Books& books) {
    const bool room = books.committed + GroupCache::group_bytes <= capacity_;
    const bool memory = room || books.rows.has_spare();
    std::optional<SlotRows::Place> place;
    if (memory && (anywhere || books.rows.free() >= slack_ || books.rows.fits(want)))
      place = books.rows.take(want);
    if (!place) {
      // A slot without memory is free only because the heap has more than its own part.
      taken.wanted = memory || books.rows.free() == 0 ? SlotKind::arena : SlotKind::heap;
      taken.used = books.used[slot_of(taken.wanted)];
      return;
    }
    sent = place->memory == SlotRows::Memory::sent;
    if (place->memory == SlotRows::Memory::none) {
      if (room)
        books.committed += GroupCache::group_bytes;
      else
        spare = books.rows.take_spare();  // gives its memory
    }
    taken.slot = &slots_[place->index];
    taken.slot->charge = charge;
    books.used[slot_of(SlotKind::arena)] += charge;
    note(books);
  });
  if (sent) punch(taken.slot->index);
  if (spare) {
    punch(*spare);
    books_.with([&](Books& books) { books.rows.give(*spare, SlotRows::Memory::none); });
  }
  return taken;
}

SlotPool::Taken SlotPool::take_heap(std::size_t size) noexcept {
  const auto whole = static_cast<std::uint32_t>(sizeof(CacheSlot) + class_of(size));
  const std::uint32_t charge = whole + node_bytes;
  for (;;) {
    Taken taken{.slot = nullptr, .wanted = SlotKind::heap, .used = 0};
    bool room = false;
    std::optional<std::uint32_t> spare;
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
      punch(*spare);
      books_.with([&](Books& books) {
        books.rows.give(*spare, SlotRows::Memory::none);
        books.committed -= GroupCache::group_bytes;
      });
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
  if (strings > GroupCache::group_bytes) return false;  // no media type anybody sends
  const std::uint32_t more =
      strings > usual_strings ? static_cast<std::uint32_t>(strings) - usual_strings : 0;
  return books_.with([&](Books& books) {
    CHECK(books.committed <= capacity_ && used() <= books.committed);  // S-1
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
