// S3-FIFO: decides which groups stay in the cache. A new group waits in a small queue (a tenth). A group that
// is used there more than once, or that comes back soon after it was evicted, goes to the main queue. The
// main queue gives another round to every group that was used. One pass over many objects is not let in at
// all (Ghost). One that reads each object a few times at once flows through the small queue.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "store/cache_slots.h"

namespace cairn::store {

// Fingerprints of groups that are not in the cache: missed once, or evicted without use. Of a fixed size;
// each of its sets forgets the oldest first.
class Ghost {
 public:
  static std::uint64_t bytes_for(std::uint64_t entries) noexcept;
  void prepare(std::uint64_t entries);
  // Remembers the hash. True: it was there already, missed or evicted.
  bool remember_missed(std::uint64_t hash) noexcept;
  void remember_evicted(std::uint64_t hash) noexcept;
  bool was_evicted(std::uint64_t hash) const noexcept;

 private:
  // The newest first; the lowest bit says that it was evicted, 0 is none.
  using Set = std::array<std::uint32_t, 8>;
  static constexpr std::uint32_t evicted = 1;
  static std::uint64_t sets_for(std::uint64_t entries) noexcept;
  static std::uint32_t fingerprint(std::uint64_t hash) noexcept;
  std::uint64_t set_of(std::uint64_t hash) const noexcept { return (hash >> 8) & (sets_.size() - 1); }
  static const std::uint32_t* find(const Set& set, std::uint64_t hash) noexcept;
  static void push(Set& set, std::uint32_t mark) noexcept;
  std::vector<Set> sets_;
};

// Which groups are evicted before their turn, to make room beside another group. `due`: those that would be
// next now. `passing`: only those of them that just came. `all`: every group that is not held.
enum class Early : std::uint8_t { due, passing, all };

// The groups of one kind of memory in one stripe, in the order of their eviction.
class GroupQueue {
 public:
  void add(CacheSlot& slot, bool to_main) noexcept;
  void remove(CacheSlot& slot) noexcept;
  // The next to go, already removed; nullptr when all are held or `looks` (counted down) is used up.
  CacheSlot* evict(Ghost& ghost, unsigned& looks) noexcept;
  // Evicts this group before its turn; whether it did. A group that was still in use is remembered as one
  // that has to come back.
  bool evict_early(CacheSlot& slot, Ghost& ghost, Early which) noexcept;
  // Any one, or nullptr.
  CacheSlot* first() noexcept;
  std::uint64_t bytes() const noexcept { return small_bytes_ + main_bytes_; }

 private:
  CacheSlot& take_oldest(bool from_small) noexcept;
  static bool may_go(const CacheSlot& slot) noexcept;

  List<CacheSlot, QueueLink> small_, main_;
  std::uint64_t small_bytes_ = 0, main_bytes_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace cairn::store
