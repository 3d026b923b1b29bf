#include "store/group_cache.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "store/cache_slots.h"
#include "store/cache_stripe.h"
#include "store/locks.h"

namespace cairn::store {
namespace {

constexpr std::uint64_t usual_group = 4 << 10;   // the tables are sized for groups of this size
constexpr std::uint64_t stripe_bytes = 4 << 20;  // of capacity, at least
constexpr std::uint64_t most_stripes = 64;
constexpr unsigned look_limit = 4096;  // entries that one reserve() looks at
constexpr unsigned hash_bits = 56;     // of a group's hash; more than tables are large; above it the stripe
constexpr unsigned erase_step = 64;    // groups that erase() takes out in one go
constexpr unsigned prepare_steps = 4;  // of one prepare(): a page is made, or a group evicted
constexpr unsigned prepare_looks = 256;

std::uint64_t word(const Address& address, std::size_t at) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, address.bytes.data() + at, sizeof value);
  return value;
}

std::uint64_t stripes_for(std::uint64_t capacity) noexcept {
  return std::min(most_stripes, std::bit_floor(std::max<std::uint64_t>(1, capacity / stripe_bytes)));
}

// Behind a whole group more of its part are expected. A group that stays alone soon leaves the rest of its
// row to other groups.
SlotRows::Want wanted_place(std::uint64_t object, std::uint64_t group, std::size_t size,
                            std::size_t in_part) noexcept {
  constexpr unsigned whole = SlotRows::row_slots;
  static_assert(whole == GroupCache::part_groups);
  const auto at = static_cast<unsigned>(group % whole);
  const auto end = static_cast<unsigned>(std::min<std::size_t>(in_part, whole));
  return {.part = group_hash(object, ~(group / whole)),
          .at = at,
          .count = size < GroupCache::group_bytes || end <= at ? 1 : end - at};
}

// Each stripe has cache lines of its own: shards work in different stripes.
struct alignas(128) StripeCell {
  Guarded<CacheStripe, cache_stripe_lock.rank> table;
};

}  // namespace

struct GroupCache::State {
  State(std::unique_ptr<io::Arena> arena, std::uint64_t capacity, std::uint64_t secret)
      : seed(mix(secret ^ 0x9e3779b97f4a7c15u, 0xd6e8feb86659fd93u)),
        stripe_count(stripes_for(capacity)),
        stripes(std::make_unique<StripeCell[]>(stripe_count)),
        pool(std::move(arena), capacity, stripe_count * CacheStripe::bytes_for(entries(capacity))) {
    for (std::uint64_t i = 0; i < stripe_count; ++i) {
      stripes[i].table.with([&](CacheStripe& stripe) { stripe.prepare(entries(capacity)); });
    }
  }

  std::uint64_t entries(std::uint64_t capacity) const noexcept {
    return capacity / usual_group / stripe_count;
  }
  std::uint64_t object_hash(const Address& address) const noexcept {
    return mix(word(address, 0) ^ seed, word(address, 8) ^ std::rotl(seed, 32));
  }
  // The tables use the low bits.
  std::uint64_t home(std::uint64_t object_hash) const noexcept {
    return (object_hash >> 56) & (stripe_count - 1);
  }
  Guarded<CacheStripe, cache_stripe_lock.rank>& stripe_of(std::uint64_t object_hash) noexcept {
    return stripes[home(object_hash)].table;
  }
  // Evicts until there is memory for `size`: first from stripes that have their share, the caller's before
  // others, then from any. Small groups make room for a small one; a slot of the arena goes only when that
  // was not enough. For a group that others follow, a victim's row goes with the victim. In a large page,
  // everything else there goes as far as it may. One stripe's lock at a time.
  SlotPool::Taken make_room(std::uint64_t from, std::size_t size, const SlotRows::Want& want,
                            SlotPool::Taken taken) noexcept;
  // Evicts the groups in these slots, as far as they may go.
  void clear(std::uint32_t first, std::uint32_t count, Early which) noexcept;
  void clear_block(std::uint32_t block, Early which) noexcept {
    clear(block * SlotRows::block_slots, SlotRows::block_slots, which);
  }
  // Gives back the memory of an evicted group, and of the groups beside it that may go.
  void let_go(Slot* victim, bool with_row) noexcept;
  // Evicts groups, so that there is a block for a large page or soon will be. False: none can be evicted.
  bool make_way() noexcept;

  std::uint64_t seed;
  std::uint64_t stripe_count;
  std::unique_ptr<StripeCell[]> stripes;
  std::atomic<std::uint64_t> way_hand{0};  // the stripe that make_way() looks at next
  SlotPool pool;
};

SlotPool::Taken GroupCache::State::make_room(std::uint64_t from, std::size_t size, const SlotRows::Want& want,
                                             SlotPool::Taken taken) noexcept {
  const bool row = want.count > 1 && pool.keeps_rows();
  unsigned looks = look_limit;
  enum class Round { fair, any, last };
  for (const Round round : {Round::fair, Round::any, Round::last}) {
    for (std::uint64_t i = 0; i < stripe_count; ++i) {
      for (;;) {
        const std::uint64_t least = round == Round::fair ? taken.used / stripe_count : 1;
        const SlotKind kind = round == Round::last ? SlotKind::arena : taken.wanted;
        Slot* victim = stripes[(from + i) & (stripe_count - 1)].table.with(
            [&](CacheStripe& stripe) { return stripe.evict(kind, least, looks); });
        if (victim == nullptr) break;
        let_go(victim, row);
        taken = pool.take(size, want);
        if (taken.slot != nullptr) return taken;
      }
    }
  }
  return pool.take(size, want, true);
}

void GroupCache::State::let_go(Slot* victim, bool with_row) noexcept {
  if (victim->kind == SlotKind::heap) {
    pool.drop(victim);
    return;
  }
  const std::uint32_t block = SlotPool::block_of(victim->index);
  if (pool.is_huge(block)) {
    if (!pool.is_held(block)) clear_block(block, victim->in_main ? Early::due : Early::passing);
  } else if (with_row) {
    clear(victim->index / SlotRows::row_slots * SlotRows::row_slots, SlotRows::row_slots, Early::due);
  }
  pool.drop(victim);
  // Also evicts groups in use that keep a page from being punched: they come back to pages of their like.
  if (const auto overdue = pool.overdue_block()) clear_block(*overdue, Early::all);
}

void GroupCache::State::clear(std::uint32_t first, std::uint32_t count, Early which) noexcept {
  for (std::uint32_t index = first; index < first + count; ++index) {
    Slot* slot = pool.slot_at(index);
    if (slot == nullptr) return;
    const std::uint64_t where = pool.whereabouts(index).load(std::memory_order_relaxed);
    if (stripes[where >> hash_bits].table.with([&](CacheStripe& stripe) {
          return stripe.evict_early(where & ((std::uint64_t{1} << hash_bits) - 1), slot, which);
        }))
      pool.drop(slot);
  }
}

bool GroupCache::State::make_way() noexcept {
  const std::uint64_t least = pool.used(SlotKind::arena) / stripe_count;
  unsigned looks = prepare_looks;
  for (std::uint64_t i = 0; i < stripe_count; ++i) {
    const std::uint64_t at = way_hand.fetch_add(1, std::memory_order_relaxed) & (stripe_count - 1);
    Slot* victim = stripes[at].table.with(
        [&](CacheStripe& stripe) { return stripe.evict(SlotKind::arena, std::max(least, 1ul), looks); });
    if (victim == nullptr) continue;
    clear_block(SlotPool::block_of(victim->index), victim->in_main ? Early::due : Early::passing);
    let_go(victim, false);
    return true;
  }
  return false;
}

std::uint64_t GroupCache::arena_bytes(std::uint64_t capacity) noexcept {
  return capacity / 8 * 7 / group_bytes * group_bytes;
}

GroupCache::GroupCache(std::unique_ptr<io::Arena> arena, std::uint64_t capacity, std::uint64_t seed) {
  CHECK(arena != nullptr && capacity >= least_capacity);
  state_ = std::make_unique<State>(std::move(arena), capacity, seed);
}

GroupCache::~GroupCache() {
  for (std::uint64_t i = 0; i < state_->stripe_count; ++i) {
    while (Slot* slot =
               state_->stripes[i].table.with([](CacheStripe& stripe) { return stripe.take_any(); })) {
      state_->pool.drop(slot);
    }
  }
}

GroupCache::Ref GroupCache::find(const Address& address, std::uint64_t group) noexcept {
  const std::uint64_t object = state_->object_hash(address);
  const std::uint64_t hash = group_hash(object, group);
  return Ref(
      state_->stripe_of(object).with([&](CacheStripe& stripe) { return stripe.find(hash, address, group); }));
}

std::shared_ptr<const ObjectFacts> GroupCache::find_facts(const Address& address) noexcept {
  const std::uint64_t object = state_->object_hash(address);
  return state_->stripe_of(object).with(
      [&](CacheStripe& stripe) { return stripe.find_facts(object, address); });
}

bool GroupCache::wants(const Address& address, std::uint64_t group, std::size_t size) noexcept {
  if (bytes() < capacity() / 2) return true;
  const std::uint64_t object = state_->object_hash(address);
  const std::uint64_t hash = group_hash(object, group);
  return state_->stripe_of(object).with(
      [&](CacheStripe& stripe) { return stripe.ghost(kind_for(size)).remember_missed(hash); });
}

GroupCache::Reservation GroupCache::reserve(const Address& address, std::uint64_t group, std::size_t size,
                                            std::size_t in_part) noexcept {
  const std::uint64_t object = state_->object_hash(address);
  SlotRows::Want want = wanted_place(object, group, size, in_part);
  if (want.count > 1 && state_->pool.keeps_blocks())
    want.returning = state_->stripe_of(object).with([&](CacheStripe& stripe) {
      return stripe.ghost(SlotKind::arena).was_evicted(group_hash(object, group));
    });
  SlotPool::Taken taken = state_->pool.take(size, want);
  if (taken.slot == nullptr) taken = state_->make_room(state_->home(object), size, want, taken);
  if (taken.slot == nullptr) return {};
  taken.slot->state = state_.get();
  taken.slot->address = address;
  taken.slot->group = group;
  taken.slot->hash = group_hash(object, group);
  if (taken.slot->kind == SlotKind::arena)
    state_->pool.whereabouts(taken.slot->index)
        .store(state_->home(object) << hash_bits | (taken.slot->hash << 8 >> 8), std::memory_order_relaxed);
  return Reservation(taken.slot);
}

std::uint64_t GroupCache::erase_epoch(const Address& address) noexcept {
  return state_->stripe_of(state_->object_hash(address)).with([](CacheStripe& stripe) {
    return stripe.epoch;
  });
}

void GroupCache::erase(const Address& address) noexcept {
  const std::uint64_t object = state_->object_hash(address);
  for (bool first = true;; first = false) {
    Slot* erased = state_->stripe_of(object).with([&](CacheStripe& stripe) {
      if (first) ++stripe.epoch;
      return stripe.erase(object, address, erase_step);
    });
    if (erased == nullptr) return;
    while (erased != nullptr) state_->pool.drop(std::exchange(erased, erased->chain));
  }
}

bool GroupCache::prepare() noexcept {
  bool made = false;
  for (unsigned step = 0; step < prepare_steps; ++step) {
    switch (state_->pool.make_block()) {
      case SlotPool::Made::one:
        made = true;
        break;
      case SlotPool::Made::no_block:
        if (!state_->make_way()) return made;
        break;
      case SlotPool::Made::enough:
      case SlotPool::Made::none:
        return made;
    }
  }
  return made;
}

bool GroupCache::wants_prepare() noexcept { return state_->pool.wants_block(); }
bool GroupCache::has_large_pages() const noexcept { return state_->pool.keeps_blocks(); }

GroupCache::LargePages GroupCache::large_pages() const noexcept {
  const SlotPool::Blocks blocks = state_->pool.blocks();
  return {.bytes = blocks.huge * io::Arena::block,
          .ready = blocks.ready * io::Arena::block,
          .resting = blocks.resting * group_bytes};
}

io::File& GroupCache::file() noexcept { return state_->pool.arena().file(); }
std::uint64_t GroupCache::bytes() const noexcept { return state_->pool.used(); }
std::uint64_t GroupCache::capacity() const noexcept { return state_->pool.capacity(); }

GroupCache::Ref::~Ref() {
  if (slot_ != nullptr) slot_->state->pool.drop(slot_);
}

const ObjectFacts& GroupCache::Ref::facts() const noexcept { return *slot_->facts; }
ByteView GroupCache::Ref::bytes() const noexcept { return {slot_->data, slot_->size}; }

std::optional<std::uint64_t> GroupCache::Ref::file_offset() const noexcept {
  if (slot_->kind != SlotKind::arena) return std::nullopt;
  return std::uint64_t{slot_->index} * group_bytes;
}

io::Hold GroupCache::Ref::to_hold(bool sent_by_file) && noexcept {
  if (slot_ == nullptr) return {};
  // Relaxed: the thread that frees the slot sees it through the count of references.
  if (sent_by_file) slot_->sent.store(true, std::memory_order_relaxed);
  return {std::exchange(slot_, nullptr), [](void* object) noexcept {
            auto* slot = static_cast<Slot*>(object);
            slot->state->pool.drop(slot);
          }};
}

GroupCache::Reservation::~Reservation() {
  if (slot_ != nullptr) slot_->state->pool.drop(slot_);
}

MutableByteView GroupCache::Reservation::bytes() noexcept { return {slot_->data, slot_->size}; }

GroupCache::Ref GroupCache::Reservation::publish(std::shared_ptr<const ObjectFacts> facts,
                                                 std::uint64_t epoch) && noexcept {
  CHECK(slot_ != nullptr && facts != nullptr);
  Slot& slot = *std::exchange(slot_, nullptr);
  State& state = *slot.state;
  slot.facts = std::move(facts);
  if (state.pool.charge_facts(slot, *slot.facts)) {
    const std::uint64_t object = state.object_hash(slot.address);
    state.stripe_of(object).with([&](CacheStripe& stripe) { stripe.insert(slot, object, epoch); });
  }
  CHECK(state.pool.used() <= state.pool.capacity());  // GC-2
  return Ref(&slot);
}

}  // namespace cairn::store
