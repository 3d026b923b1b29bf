// The cache with large pages. Where it matters that bytes on their way stay as they were, the arena is real;
// elsewhere it is simulated, so that large pages can always be had.
#include <gtest/gtest.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <set>
#include <thread>
#include <vector>

#include "store/cache_fixture.h"
#include "store/cache_slots_rows.h"

namespace cairn::store {
namespace {

constexpr std::uint64_t block = io::Arena::block;

struct Simulated : Fixture {
  explicit Simulated(std::uint64_t capacity, std::uint64_t seed = 1)
      : Fixture(capacity, seed, Pages::simulated) {}
  std::uint64_t arena_bytes() { return GroupCache::arena_bytes(cache.capacity()); }
  std::uint64_t offset(std::uint64_t object, std::uint64_t group) {
    return *cache.find(address_of(object), group).file_offset();
  }
  // Every slot that can be had, one after the other.
  std::vector<GroupCache::Reservation> reserve_all(std::uint64_t object) {
    std::vector<GroupCache::Reservation> all;
    for (std::uint64_t group = 0;; ++group) {
      auto one = cache.reserve(address_of(object), group, large);
      if (!one) return all;
      all.push_back(std::move(one));
    }
  }
};

TEST(LargePages, are_made_ahead_and_parts_lie_in_them) {
  Simulated f(64 * mebibyte);
  EXPECT_TRUE(f.cache.wants_prepare());
  EXPECT_TRUE(f.cache.prepare());
  const std::uint64_t ready = f.cache.large_pages().ready;
  EXPECT_GT(ready, 0u);
  EXPECT_EQ(f.cache.large_pages().bytes, ready);
  EXPECT_FALSE(f.cache.wants_prepare());
  EXPECT_FALSE(f.cache.prepare());
  f.put_part(1, 0, true);
  EXPECT_EQ(f.cache.large_pages().ready, ready - block);
  f.put_part(2, 0, true);
  EXPECT_EQ(f.cache.large_pages().ready, ready - block);
  EXPECT_EQ(f.offset(1, 0) / block, f.offset(2, 15) / block);  // the other half
  EXPECT_TRUE(f.cache.wants_prepare());
  EXPECT_TRUE(f.cache.prepare());
  EXPECT_EQ(f.cache.large_pages().ready, ready);
}

TEST(LargePages, a_small_cache_has_none) {
  Simulated f(32 * mebibyte);
  EXPECT_FALSE(f.cache.has_large_pages());
  EXPECT_FALSE(f.cache.wants_prepare());
  EXPECT_FALSE(f.cache.prepare());
  EXPECT_EQ(f.arena.made_huge, 0);
}

TEST(LargePages, a_group_alone_does_not_open_one) {
  Simulated f(64 * mebibyte);
  f.cache.prepare();
  const std::uint64_t ready = f.cache.large_pages().ready;
  const GroupCache::Ref short_one = f.put(1, 0, 40'000);
  const GroupCache::Reservation whole_one = f.cache.reserve(address_of(2), 0, large, 1);
  EXPECT_EQ(f.cache.large_pages().ready, ready);
}

TEST(LargePages, what_comes_back_lies_in_others_than_what_comes) {
  Simulated f(128 * mebibyte);
  for (std::uint64_t object = 0; object < 300; ++object) {  // more than fits
    f.cache.prepare();
    f.put_part(object, 0, true);
  }
  std::uint64_t gone = 0;
  while (f.has(gone, 0)) ++gone;
  for (std::uint64_t newcomer = 1000; f.cache.large_pages().ready == 0; ++newcomer) {
    f.put_part(newcomer, 0, true);
    f.cache.prepare();
  }
  const std::uint64_t ready = f.cache.large_pages().ready;
  std::uint64_t newcomer = 2000;
  for (; f.cache.large_pages().ready == ready; ++newcomer) f.put_part(newcomer, 0, true);
  f.cache.prepare();
  ASSERT_GT(f.cache.large_pages().ready, 0u);
  f.put_part(gone, 0, true);
  EXPECT_NE(f.offset(gone, 0) / block, f.offset(newcomer - 1, 0) / block);  // which has a row left
}

// CS-2, CR-3
TEST(LargePages, a_slot_that_was_sent_rests_until_its_page_is_free) {
  Simulated f(64 * mebibyte);
  f.cache.prepare();
  f.put_part(1, 0, true);
  f.put_part(2, 0, false);
  GroupCache::Ref other = f.cache.find(address_of(2), 3);
  const std::byte* sent = f.cache.find(address_of(1), 0).bytes().data();
  f.cache.erase(address_of(1));
  EXPECT_EQ(f.cache.large_pages().resting, 16 * large);
  auto given = f.reserve_all(100);
  EXPECT_EQ(given.size(), f.arena_bytes() / large - 16 - 1);
  for (GroupCache::Reservation& one : given)
    EXPECT_FALSE(one.bytes().data() >= sent && one.bytes().data() < sent + 16 * large);
  EXPECT_EQ(f.arena.punches, 0);
  given.clear();
  {
    const GroupCache::Ref gone = std::move(other);
  }
  f.cache.erase(address_of(2));
  given = f.reserve_all(101);
  EXPECT_EQ(given.size(), f.arena_bytes() / large);
  EXPECT_EQ(f.arena.punches, 1);  // all of it at once
  EXPECT_EQ(f.cache.large_pages().resting, 0u);
}

// GC-3
TEST(LargePages, bytes_in_a_socket_outlast_the_reuse_of_their_page) {
  Fixture f(64 * mebibyte);
  if (!f.cache.prepare()) GTEST_SKIP() << "no large pages to be had";
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  constexpr std::size_t some = 16 << 10;  // fits the socket at once
  f.put_part(1, 0, true, 42);
  std::uint64_t where = 0;
  {
    GroupCache::Ref ref = f.cache.find(address_of(1), 3);
    where = *ref.file_offset();
    auto at = static_cast<off_t>(where);
    const io::Hold hold = std::move(ref).to_hold(true);
    ASSERT_EQ(sendfile(ends[0], f.cache.file().descriptor(), &at, some), static_cast<ssize_t>(some));
  }
  f.cache.erase(address_of(1));
  int reused = 0;
  for (std::uint64_t object = 10; object < 150; ++object) {
    f.cache.prepare();
    f.put_part(object, 0, true, 9);
    for (std::uint64_t group = 0; group < 16; ++group) {
      const GroupCache::Ref ref = f.cache.find(address_of(object), group);
      reused += ref && *ref.file_offset() == where;
    }
  }
  EXPECT_GT(reused, 0);
  EXPECT_GT(f.arena.made_huge, 28);  // pages were made again where pages had been
  std::vector<std::byte> received(some);
  ASSERT_EQ(recv(ends[1], received.data(), some, MSG_WAITALL), static_cast<ssize_t>(some));
  EXPECT_TRUE(all_are(received, 42));
  close(ends[0]);
  close(ends[1]);
}

TEST(LargePages, without_them_everything_works_and_the_kernel_is_asked_seldom) {
  Simulated f(64 * mebibyte);
  f.arena.no_huge = true;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(f.cache.prepare());
  EXPECT_EQ(f.arena.refused_huge, 3);
  int attempts = 0;
  for (int i = 0; i < 2048; ++i) attempts += f.cache.wants_prepare();
  EXPECT_EQ(attempts, 2);
  for (std::uint64_t object = 0; object < 100; ++object) f.put_part(object, 0, true);
  EXPECT_GT(f.cache.bytes(), f.cache.capacity() * 8 / 10);
  EXPECT_EQ(f.cache.large_pages().bytes, 0u);
  f.arena.no_huge = false;
  EXPECT_TRUE(f.cache.prepare());
  EXPECT_TRUE(f.cache.large_pages().bytes > 0);
}

TEST(LargePages, small_groups_get_the_memory_of_free_ones_and_give_it_back) {
  Simulated f(64 * mebibyte);
  for (std::uint64_t object = 0; object < 50; ++object) {
    f.cache.prepare();
    f.put_part(object, 0, true);
  }
  EXPECT_GT(f.cache.large_pages().bytes, f.arena_bytes() / 2);
  for (std::uint64_t object = 0; object < 50; ++object) f.cache.erase(address_of(object));
  for (std::uint64_t i = 0; i < 40'000; ++i) f.put(1000 + i, 0, 2000);
  EXPECT_GT(f.cache.bytes(), f.cache.capacity() * 9 / 10);
  EXPECT_EQ(f.cache.large_pages().bytes, 0u);
  for (std::uint64_t object = 0; object < 200; ++object) {
    f.cache.prepare();
    f.put_part(object, 0, true);
  }
  EXPECT_GT(f.cache.large_pages().bytes, f.arena_bytes() / 2);
}

TEST(LargePages, most_parts_lie_in_them_when_much_has_come_and_gone_and_few_hits_are_lost) {
  constexpr std::uint64_t capacity = 128 * mebibyte;
  Simulated small(capacity), f(capacity);
  Readers without(small, 7), readers(f, 7, true);
  without.read(100'000, 600);  // three times what fits
  readers.read(100'000, 600);
  RecordProperty("hits_without", without.hits);
  RecordProperty("hits", readers.hits);
  EXPECT_GT(readers.hits, without.hits * 19 / 20);
  const double joined = readers.joined(600);
  RecordProperty("joined_percent", static_cast<int>(joined * 100));
  EXPECT_GT(joined, 0.6);
  EXPECT_GT(f.cache.bytes(), f.cache.capacity() * 2 / 3);
  EXPECT_GT(f.cache.large_pages().bytes, f.arena_bytes() / 2);
  EXPECT_LT(f.cache.large_pages().resting, f.arena_bytes() / 8);
}

// GC-5: whether the scan writes every part straight into the cache (0) or reads each one to three times.
class ScanPages : public testing::TestWithParam<int> {
 protected:
  // How many of the groups that were read again and again are left after the scan.
  static int left_after_scan(int reads, bool prepared) {
    constexpr std::uint64_t hot = 11;  // parts: the last page is shared with the scan
    Simulated f(64 * mebibyte);
    auto read_part = [&](std::uint64_t object) {
      if (prepared) f.cache.prepare();
      for (std::uint64_t group = 0; group < 16; ++group) {
        GroupCache::Ref ref = f.cache.find(address_of(object), group);
        if (!ref && f.cache.wants(address_of(object), group)) ref = f.put(object, group, large);
        const io::Hold hold = std::move(ref).to_hold(true);
      }
    };
    for (int round = 0; round < 4; ++round)
      for (std::uint64_t object = 0; object < hot; ++object) read_part(object);
    for (std::uint64_t object = 1000; object < 1600; ++object) {
      if (prepared) f.cache.prepare();
      if (reads == 0) f.put_part(object, 0, true);
      for (int read = 0; read < reads; ++read) read_part(object);
    }
    EXPECT_EQ(f.cache.large_pages().bytes > hot * 16 * large, prepared);
    int left = 0;
    for (std::uint64_t object = 0; object < hot; ++object)
      for (std::uint64_t group = 0; group < 16; ++group) left += f.has(object, group);
    return left;
  }
};
TEST_P(ScanPages, pushes_out_no_more_of_what_is_used_again_and_again_than_without_large_pages) {
  const int left = left_after_scan(GetParam(), true);
  EXPECT_GE(left, left_after_scan(GetParam(), false));
  if (GetParam() <= 2) EXPECT_EQ(left, 11 * 16);
}
INSTANTIATE_TEST_SUITE_P(GroupCache, ScanPages, testing::Values(0, 1, 2, 3));

TEST(LargePages, pages_of_slow_readers_are_of_use_again_when_those_leave) {
  Simulated f(64 * mebibyte);
  std::vector<io::Hold> slow;
  for (std::uint64_t object = 0; object < 56; ++object) {  // all of the arena
    f.cache.prepare();
    f.put_part(object, 0, true);
    if (object % 2 == 0) slow.push_back(f.cache.find(address_of(object), 5).to_hold(true));
  }
  for (std::uint64_t object = 100; object < 200; ++object)
    for (std::uint64_t group = 0; group < 16; ++group) f.put(object, group, large);
  EXPECT_LE(f.cache.bytes(), f.cache.capacity());
  slow.clear();
  for (std::uint64_t object = 200; object < 260; ++object) {
    f.cache.prepare();
    f.put_part(object, 0, true);
  }
  EXPECT_GT(f.cache.bytes(), f.cache.capacity() * 2 / 3);
}

// Groups of 60 objects, small ones beside them, erased now and then, held for a while, sent by file or not;
// large pages to be had or not. What is found is right; memory that was sent was punched before it is given
// again; and in the end the books are as in the beginning (the pool CHECKs).
TEST(LargePages, the_books_are_exact_and_nothing_is_mixed_up_whatever_happens) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Simulated f(48 * mebibyte, seed);
    Random random(seed);
    std::map<const std::byte*, bool> sent;
    std::vector<io::Hold> held;
    auto stamp = [](std::uint64_t object, std::uint64_t group) {
      return static_cast<std::byte>(1 + (object * 50 + group) % 255);
    };
    for (int step = 0; step < 30'000; ++step) {
      const std::uint64_t object = random.below(60), group = random.below(Readers::groups_of(object));
      const std::uint64_t what = random.below(1000);
      if (what < 20) f.cache.prepare();
      if (what == 20) f.arena.no_huge = random.chance(1, 3);
      if (what > 20 && what < 30) f.cache.erase(address_of(object));
      if (what >= 30 && what < 150) f.put(1000 + random.below(20'000), 0, random.below(3000));
      if (what >= 150 && what < 200 && !held.empty()) {
        std::swap(held[random.below(held.size())], held.back());
        held.pop_back();
      }
      if (what < 200) continue;
      GroupCache::Ref ref = f.cache.find(address_of(object), group);
      if (!ref) {
        const std::uint64_t epoch = f.cache.erase_epoch(address_of(object));
        auto slot = f.cache.reserve(address_of(object), group, large);
        if (!slot) continue;
        if (std::exchange(sent[slot.bytes().data()], false)) {
          ASSERT_EQ(slot.bytes().front(), std::byte{0});  // CS-2
          ASSERT_EQ(slot.bytes().back(), std::byte{0});
        }
        slot.bytes().front() = slot.bytes().back() = stamp(object, group);
        if (random.chance(1, 20)) continue;
        ref = std::move(slot).publish(facts_of(large), epoch);
      }
      ASSERT_EQ(ref.bytes().front(), stamp(object, group));
      ASSERT_EQ(ref.bytes().back(), stamp(object, group));
      ASSERT_LE(f.cache.bytes(), f.cache.capacity());
      const bool by_file = random.chance(2, 3);
      if (by_file) sent[ref.bytes().data()] = true;
      io::Hold hold = std::move(ref).to_hold(by_file);
      if (random.chance(1, 20)) held.push_back(std::move(hold));
    }
    EXPECT_GT(f.arena.made_huge, 2);
    held.clear();
  }
}

TEST(LargePages, threads_see_only_whole_groups_of_the_right_address) {
  Fixture f(48 * mebibyte);
  std::atomic<int> wrong = 0;
  std::atomic<bool> done = false;
  auto work = [&](std::uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < 12'000; ++i) {
      const std::uint64_t object = random.below(80), group = random.below(16);
      const auto mark = static_cast<std::uint8_t>(object * 16 + group);
      if (random.chance(1, 100)) f.cache.erase(address_of(object));
      GroupCache::Ref ref = f.cache.find(address_of(object), group);
      if (!ref) ref = f.put(object, group, large, mark);
      if (!ref) continue;
      const ByteView bytes = ref.bytes();
      if (bytes.front() != std::byte{mark} || bytes.back() != std::byte{mark}) ++wrong;
      const io::Hold hold = std::move(ref).to_hold(random.chance(3, 4));
    }
  };
  {
    std::jthread preparing([&] {
      while (!done) {
        f.cache.prepare();
        std::this_thread::yield();
      }
    });
    {
      std::vector<std::jthread> threads;
      for (std::uint64_t seed = 1; seed <= 3; ++seed) threads.emplace_back(work, seed);
    }
    done = true;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(f.cache.bytes(), f.cache.capacity());
}

TEST(SlotRows, parts_that_come_back_and_parts_that_come_fill_pages_of_their_own) {
  constexpr std::uint32_t row = SlotRows::row_slots, page = SlotRows::block_slots;
  SlotRows rows(8 * page);
  for (int i = 0; i < 2; ++i) {
    const auto idle = rows.find_idle();
    rows.take_block(idle->block);
    rows.give_block(idle->block, true);
  }
  auto put = [&](std::uint64_t part, bool returning) {
    std::uint32_t first = 0;
    for (unsigned at = 0; at < row; ++at) {
      const auto place = rows.take({.part = part, .at = at, .count = row - at, .returning = returning});
      if (at == 0) first = place->index;
      EXPECT_EQ(place->index, first + at);
    }
    return first / page;
  };
  const std::uint32_t came = put(1, false), back = put(2, true);
  EXPECT_NE(came, back);
  EXPECT_TRUE(rows.is_huge(came) && rows.is_huge(back));
  EXPECT_EQ(put(3, true), back);
  EXPECT_EQ(put(4, false), came);
  EXPECT_FALSE(rows.is_huge(put(5, false)));
}

// CR-1, CR-3
TEST(SlotRows, every_slot_is_given_once_and_none_that_rests_also_in_large_pages) {
  for (const std::uint32_t slots : {31u, 32u, 80u, 1000u}) {
    SlotRows rows(slots);
    Random random(slots);
    std::vector<std::uint32_t> taken;
    std::set<std::uint32_t> resting;
    auto is_taken = [&](std::uint32_t index) { return std::ranges::find(taken, index) != taken.end(); };
    auto first_of = [](std::uint32_t index) { return index / SlotRows::block_slots * SlotRows::block_slots; };
    auto awake = [&](std::uint32_t of) {
      for (std::uint32_t i = 0; i < SlotRows::block_slots; ++i) {
        ASSERT_FALSE(is_taken(of * SlotRows::block_slots + i));
        resting.erase(of * SlotRows::block_slots + i);
      }
    };
    // When nobody has a slot of it, all of a page rests as soon as one does.
    auto rest = [&](std::uint32_t index) {
      bool any_taken = false, any_rests = false;
      for (std::uint32_t i = first_of(index); i < first_of(index) + SlotRows::block_slots; ++i) {
        any_taken |= is_taken(i);
        any_rests |= resting.contains(i);
      }
      if (any_taken || !any_rests) return;
      for (std::uint32_t i = 0; i < SlotRows::block_slots; ++i) resting.insert(first_of(index) + i);
    };
    bool ever_huge = false;
    for (int step = 0; step < 30'000; ++step) {
      const std::uint64_t verb = random.below(20);
      if (verb < 9) {
        const auto at = static_cast<unsigned>(random.below(16));
        const bool huge_only = random.chance(1, 5);
        const auto place = rows.take({.part = random.below(80),
                                      .at = at,
                                      .count = 1 + static_cast<unsigned>(random.below(16 - at)),
                                      .returning = random.chance(1, 3)},
                                     huge_only);
        if (!huge_only) ASSERT_EQ(place.has_value(), taken.size() + resting.size() < slots);
        if (!place) continue;
        ASSERT_LT(place->index, slots);
        ASSERT_FALSE(is_taken(place->index) || resting.contains(place->index));
        if (huge_only) ASSERT_TRUE(rows.is_huge(place->index / SlotRows::block_slots));
        taken.push_back(place->index);
      } else if (verb < 10) {
        const auto spare = rows.take_spare();
        if (!spare) continue;
        if (spare->block) {
          awake(spare->index);
          rows.give_block(spare->index, false);
        } else {
          ASSERT_FALSE(is_taken(spare->index) || resting.contains(spare->index));
          rows.give(spare->index, SlotRows::Memory::none);
        }
      } else if (verb < 11) {
        const auto idle = rows.find_idle();
        if (!idle) continue;
        awake(idle->block);
        rows.take_block(idle->block);
        rows.give_block(idle->block, random.chance(3, 4));
      } else if (!taken.empty()) {
        std::swap(taken[random.below(taken.size())], taken.back());
        const std::uint32_t index = taken.back();
        const bool huge = rows.is_huge(index / SlotRows::block_slots);
        const auto memory = static_cast<SlotRows::Memory>(huge ? 1 + random.below(2) : random.below(3));
        if (huge && memory == SlotRows::Memory::sent) resting.insert(index);
        rows.give(index, memory);
        taken.pop_back();
        if (huge) rest(index);
      }
      ever_huge |= rows.huge() > 0;
      ASSERT_EQ(rows.resting() + rows.stale() * SlotRows::block_slots, resting.size());
      ASSERT_EQ(rows.free(), slots - taken.size() - resting.size());
    }
    EXPECT_EQ(ever_huge, slots >= SlotRows::block_slots);
  }
}

}  // namespace
}  // namespace cairn::store
