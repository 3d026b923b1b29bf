#include "store/group_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "store/cache_slots.h"
#include "store/cache_stripe.h"

namespace cairn::store {
namespace {

constexpr std::uint64_t usual_group = 4 << 10;   // what the tables are sized for
constexpr std::uint64_t stripe_bytes = 4 << 20;  // of capacity, at least
constexpr std::uint64_t most_stripes = 64;
constexpr unsigned look_limit = 4096;  // entries that one reserve() looks at
constexpr unsigned hash_bits = 56;     // of a group's hash; more than tables are large; above it the stripe
constexpr unsigned erase_step = 64;    // groups that erase() takes out in one go

std::uint64_t word(const Address& address, std::size_t at) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, address.bytes.data() + at, sizeof value);
  return value;
}

std::uint64_t stripes_for(std::uint64_t capacity) noexcept {
  return std::min(most_stripes, std::bit_floor(std::max<std::uint64_t>(1, capacity / stripe_bytes)));
}

// Behind a whole group others are expected: one that stays alone leaves the rest of its row to others soon.
SlotRows::Want wanted_place(std::uint64_t object, std::uint64_t group, std::size_t size) noexcept {
  constexpr unsigned in_part = SlotRows::row_slots;
  const auto at = static_cast<unsigned>(group % in_part);
  return {.part = group_hash(object, ~(group / in_part)),
          .at = at,
          .count = size < GroupCache::group_bytes ? 1 : in_part - at};
}

// Each on lines of its own: shards work in different ones.
struct alignas(128) StripeCell {
  Guarded<CacheStripe, cache_stripe_rank> table;
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
  Guarded<CacheStripe, cache_stripe_rank>& stripe_of(std::uint64_t object_hash) noexcept {
    return stripes[home(object_hash)].table;
  }
  // Evicts until there is memory for `size`: first from stripes that have their share, the caller's before
  // others, then from any. Small groups make room for a small one; a slot of the arena only when that was not
  // enough. For a group that others follow, a victim's row goes with it. One stripe's lock at
  // a time.
  SlotPool::Taken make_room(std::uint64_t from, std::size_t size, const SlotRows::Want& want,
                            SlotPool::Taken taken) noexcept;
  // Evicts what lies in the row of this slot and is no more in use.
  void clear_row(std::uint32_t of) noexcept;

  std::uint64_t seed;
  std::uint64_t stripe_count;
  std::unique_ptr<StripeCell[]> stripes;
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
        if (row && kind == SlotKind::arena) clear_row(victim->index);
        pool.drop(victim);
        taken = pool.take(size, want);
        if (taken.slot != nullptr) return taken;
      }
    }
  }
  return pool.take(size, want, true);
}

void GroupCache::State::clear_row(std::uint32_t of) noexcept {
  const std::uint32_t first = of / SlotRows::row_slots * SlotRows::row_slots;
  for (std::uint32_t index = first; index < first + SlotRows::row_slots; ++index) {
    Slot* slot = pool.slot_at(index);
    if (slot == nullptr) return;
    const std::uint64_t where = pool.whereabouts(index).load(std::memory_order_relaxed);
    if (stripes[where >> hash_bits].table.with([&](CacheStripe& stripe) {
          return stripe.evict_early(where & ((std::uint64_t{1} << hash_bits) - 1), slot);
        }))
      pool.drop(slot);
  }
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

GroupCache::Reservation GroupCache::reserve(const Address& address, std::uint64_t group,
                                            std::size_t size) noexcept {
  const std::uint64_t object = state_->object_hash(address);
  const SlotRows::Want want = wanted_place(object, group, size);
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

http::Hold GroupCache::Ref::to_hold(bool sent_by_file) && noexcept {
  if (slot_ == nullptr) return {};
  // Relaxed: whoever frees the slot sees it through the count of references.
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
  CHECK(state.pool.used() <= state.pool.capacity());  // C-2
  return Ref(&slot);
}

}  // namespace cairn::store
