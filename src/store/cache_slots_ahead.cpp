#include <algorithm>

#include "store/cache_slots.h"

namespace cairn::store {
namespace {

constexpr std::uint32_t unused_share = 8;    // more of the arena does not lie unused in large pages
constexpr std::uint32_t resting_share = 16;  // slots that may rest before pages are freed by force
constexpr std::uint32_t full_share = 8;      // less free than this: groups make way for a page
constexpr unsigned failures_most = 3;        // in a row; then the kernel is asked
constexpr std::uint32_t retry_each = 1024;   // so many times less often

}  // namespace

bool SlotPool::wants_block(const Books& books) const noexcept {
  return books.rows.ready() < ready_most_ && books.asked > 0 &&
         books.rows.unused_in_huge() <= slot_count_ / unused_share;
}

bool SlotPool::wants_block() noexcept {
  return books_.with([&](Books& books) {
    if (!wants_block(books)) return false;
    return books.failures < failures_most || ++books.skipped % retry_each == 0;
  });
}

SlotPool::Made SlotPool::make_block() noexcept {
  SlotRows::Idle idle;
  const Made made = books_.with([&](Books& books) {
    if (!wants_block(books)) return Made::enough;
    const auto found = books.rows.find_idle();
    if (!found) return books.rows.free() < slot_count_ / full_share ? Made::no_block : Made::enough;
    const std::uint64_t more = (SlotRows::block_slots - found->with_memory) * GroupCache::group_bytes;
    if (books.committed + more > capacity_) return Made::enough;  // the heap has it
    books.committed += more;
    books.rows.take_block(found->block);
    idle = *found;
    return Made::one;
  });
  if (made != Made::one) return made;
  if (idle.with_memory > 0) punch_block(idle.block);
  const bool huge = arena_->make_huge(idle.block * io::Arena::block);
  books_.with([&](Books& books) {
    books.rows.give_block(idle.block, huge);
    if (huge) {
      books.failures = 0;
      books.asked -= std::min(books.asked, 1u);
    } else {
      books.committed -= io::Arena::block;
      ++books.failures;
    }
  });
  return huge ? Made::one : Made::none;
}

bool SlotPool::is_huge(std::uint32_t block) noexcept {
  return books_.with([&](Books& books) { return books.rows.is_huge(block); });
}

bool SlotPool::is_held(std::uint32_t block) const noexcept {
  const CacheSlot* first = &slots_[block * SlotRows::block_slots];
  return std::any_of(first, first + SlotRows::block_slots,
                     [](const CacheSlot& slot) { return slot.refs.load(std::memory_order_relaxed) > 1; });
}

std::optional<std::uint32_t> SlotPool::overdue_block() noexcept {
  return books_.with([&](Books& books) -> std::optional<std::uint32_t> {
    if (books.rows.resting() <= slot_count_ / resting_share) return std::nullopt;
    return books.rows.most_rested([&](std::uint32_t block) { return !is_held(block); });
  });
}

std::uint64_t SlotPool::used(SlotKind kind) noexcept {
  return books_.with([&](Books& books) { return books.used[static_cast<std::size_t>(kind)]; });
}

SlotPool::Blocks SlotPool::blocks() noexcept {
  return books_.with([](Books& books) {
    return Blocks{.huge = books.rows.huge(), .ready = books.rows.ready(), .resting = books.rows.resting()};
  });
}

}  // namespace cairn::store
