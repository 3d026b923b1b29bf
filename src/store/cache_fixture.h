// For tests: a cache over an arena that counts what is done to it, and readers of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "io/sim/memory.h"
#include "runtime/random.h"
#include "store/group_cache.h"

namespace cairn::store {

inline constexpr std::size_t large = GroupCache::group_bytes;
inline constexpr std::uint64_t mebibyte = 1 << 20;

// What a test asks of its arena, and what happened to it.
struct ArenaFacts {
  bool simulated = false;
  std::atomic<bool> no_huge = false;  // for now
  std::atomic<int> punches = 0, made_huge = 0, refused_huge = 0;
};

class CountedArena final : public io::Arena {
 public:
  CountedArena(std::uint64_t bytes, ArenaFacts* facts) : facts_(facts) {
    if (facts->simulated)
      inner_ = std::make_unique<io::sim::SimArena>(bytes);
    else
      inner_ = std::move(io::MemoryArena::make(bytes)).value();
  }
  std::byte* data() noexcept override { return inner_->data(); }
  std::size_t size() const noexcept override { return inner_->size(); }
  io::File& file() noexcept override { return inner_->file(); }
  void punch(std::size_t offset, std::size_t count) noexcept override {
    ++facts_->punches;
    inner_->punch(offset, count);
  }
  bool make_huge(std::size_t offset) noexcept override {
    const bool made = !facts_->no_huge && inner_->make_huge(offset);
    ++(made ? facts_->made_huge : facts_->refused_huge);
    return made;
  }

 private:
  std::unique_ptr<io::Arena> inner_;
  ArenaFacts* facts_;
};

inline Address address_of(std::uint64_t number) {
  Address address;
  for (std::size_t i = 0; i < 4; ++i) {
    number = (number + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    number ^= number >> 31;
    std::memcpy(address.bytes.data() + i * 8, &number, 8);
  }
  return address;
}

inline std::shared_ptr<const ObjectFacts> facts_of(std::uint64_t size,
                                                   std::string media_type = "text/plain") {
  return std::make_shared<const ObjectFacts>(
      ObjectFacts{.size = size, .media_type = std::move(media_type), .etag = std::string(69, 'e')});
}

struct Fixture {
  enum class Pages { real, simulated };
  explicit Fixture(std::uint64_t capacity, std::uint64_t seed = 1, Pages pages = Pages::real)
      : arena{.simulated = pages == Pages::simulated},
        cache(std::make_unique<CountedArena>(GroupCache::arena_bytes(capacity), &arena), capacity, seed) {}

  // Reserves, fills with `mark` and publishes; an empty Ref when there was no memory.
  GroupCache::Ref put(std::uint64_t object, std::uint64_t group, std::size_t size, std::uint8_t mark = 7) {
    const std::uint64_t epoch = cache.erase_epoch(address_of(object));
    GroupCache::Reservation reservation = cache.reserve(address_of(object), group, size);
    if (!reservation) return {};
    std::memset(reservation.bytes().data(), mark, size);
    return std::move(reservation).publish(facts_of(size), epoch);
  }
  // What a reader does: a hit, or a miss that is brought in when it is worth it. Whether it was a hit.
  bool read(std::uint64_t object, std::uint64_t group, std::size_t size) {
    if (cache.find(address_of(object), group)) return true;
    if (cache.wants(address_of(object), group, size)) put(object, group, size);
    return false;
  }
  bool has(std::uint64_t object, std::uint64_t group) {
    return static_cast<bool>(cache.find(address_of(object), group));
  }

  // A part of an object, as a reader reads it that gets it by file or by copy.
  void put_part(std::uint64_t object, std::uint64_t part, bool by_file, std::uint8_t mark = 7) {
    for (std::uint64_t i = 0; i < 16; ++i) {
      GroupCache::Ref ref = put(object, part * 16 + i, large, mark);
      ASSERT_TRUE(ref);
      const io::Hold hold = std::move(ref).to_hold(by_file);
    }
  }

  ArenaFacts arena;
  GroupCache cache;
};

inline bool all_are(ByteView bytes, std::uint8_t mark) {
  return std::ranges::all_of(bytes, [&](std::byte b) { return b == std::byte{mark}; });
}

// Readers that bring objects in group by group, several at once, and how much of what they brought lies side
// by side in the arena's file.
class Readers {
 public:
  // `prepared`: as a service does, large pages are made ready now and then.
  Readers(Fixture& fixture, std::uint64_t seed, bool prepared = false)
      : f_(fixture), random_(seed), prepared_(prepared) {}

  // `steps` groups are read, of objects out of `objects`, a few of them far more often than the rest.
  void read(int steps, std::uint64_t objects) {
    while (steps-- > 0) {
      if (prepared_ && steps % 32 == 0) f_.cache.prepare();
      Reader& reader = readers_[random_.below(readers_.size())];
      if (reader.at == reader.groups) {
        const std::uint64_t object =
            random_.chance(1, 2) ? random_.below(objects / 20) : random_.below(objects);
        reader = {object, 0, groups_of(object)};
      }
      bring(reader.object, reader.at++, reader.groups);
    }
  }
  void bring(std::uint64_t object, std::uint64_t group, std::uint64_t groups) {
    GroupCache::Ref ref = f_.cache.find(address_of(object), group);
    ++(ref ? hits : misses);
    if (!ref && f_.cache.wants(address_of(object), group)) {
      const std::uint64_t epoch = f_.cache.erase_epoch(address_of(object));
      auto slot = f_.cache.reserve(address_of(object), group, large, std::min<std::size_t>(groups, 16));
      if (slot) ref = std::move(slot).publish(facts_of(groups * large), epoch);
    }
    if (ref) {
      const io::Hold hold = std::move(ref).to_hold(random_.chance(1, 2));
    }
  }
  // Of the pairs of neighbours in a part that are both here, the share that one call can send.
  double joined(std::uint64_t objects) {
    int pairs = 0, together = 0;
    for (std::uint64_t object = 0; object < objects; ++object) {
      for (std::uint64_t group = 1; group < groups_of(object); ++group) {
        const GroupCache::Ref before = f_.cache.find(address_of(object), group - 1);
        const GroupCache::Ref ref = f_.cache.find(address_of(object), group);
        if (group % 16 == 0 || !before || !ref) continue;
        ++pairs;
        together += *ref.file_offset() == *before.file_offset() + large;
      }
    }
    EXPECT_GT(pairs, 100);
    return static_cast<double>(together) / pairs;
  }
  static std::uint64_t groups_of(std::uint64_t object) {
    constexpr std::array<std::uint64_t, 6> counts{1, 16, 1, 4, 16, 48};
    return counts[object % counts.size()];
  }

  int hits = 0, misses = 0;

 private:
  struct Reader {
    std::uint64_t object = 0, at = 0, groups = 0;
  };
  Fixture& f_;
  Random random_;
  bool prepared_;
  std::array<Reader, 8> readers_{};
};

}  // namespace cairn::store
