#include "store/group_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "store/cache_fixture.h"
#include "store/cache_slots_rows.h"

namespace cairn::store {
namespace {

TEST(GroupCache, what_is_published_is_found_with_its_facts_and_bytes) {
  Fixture f(4 * mebibyte);
  f.put(1, 0, large, 10);
  f.put(1, 1, 100, 11);
  f.put(2, 0, 32 << 10, 12);
  GroupCache::Ref ref = f.cache.find(address_of(1), 1);
  ASSERT_TRUE(ref);
  EXPECT_EQ(ref.bytes().size(), 100u);
  EXPECT_TRUE(all_are(ref.bytes(), 11));
  EXPECT_EQ(ref.facts().media_type, "text/plain");
  EXPECT_EQ(ref.file_offset(), std::nullopt);
  GroupCache::Ref slot = f.cache.find(address_of(2), 0);
  ASSERT_TRUE(slot && slot.file_offset());
  EXPECT_TRUE(all_are(slot.bytes(), 12));
  EXPECT_FALSE(f.has(1, 2));
  EXPECT_FALSE(f.has(3, 0));
}

TEST(GroupCache, the_file_of_the_arena_has_the_bytes_at_the_offset) {
  Fixture f(mebibyte);
  f.put(1, 0, large, 3);
  GroupCache::Ref ref = f.put(2, 0, 40'000, 4);
  std::vector<std::byte> read(40'000);
  ASSERT_EQ(f.cache.file().try_read_into(*ref.file_offset(), read).value(), read.size());
  EXPECT_TRUE(all_are(read, 4));
}

TEST(GroupCache, groups_of_an_object_share_its_facts) {
  Fixture f(mebibyte);
  const GroupCache::Ref first = f.put(1, 0, 10);
  const GroupCache::Ref second = f.put(1, 1, 10);
  EXPECT_EQ(&first.facts(), &second.facts());
}

TEST(GroupCache, a_second_publish_keeps_the_first_and_serves_its_own) {
  Fixture f(mebibyte);
  f.put(1, 0, 500, 1);
  {
    const GroupCache::Ref mine = f.put(1, 0, 500, 2);
    EXPECT_TRUE(all_are(mine.bytes(), 2));
    EXPECT_TRUE(all_are(f.cache.find(address_of(1), 0).bytes(), 1));
  }
  f.cache.erase(address_of(1));
  EXPECT_EQ(f.cache.bytes(), 0u);
}

// GC-1
TEST(GroupCache, unpublished_bytes_are_never_found_and_published_ones_do_not_move) {
  Fixture f(mebibyte);
  for (const std::size_t size : {std::size_t{100}, large}) {
    GroupCache::Reservation reservation = f.cache.reserve(address_of(size), 0, size);
    const std::byte* checked = reservation.bytes().data();
    EXPECT_FALSE(f.has(size, 0));
    const GroupCache::Ref ref = std::move(reservation).publish(facts_of(size), 0);
    EXPECT_EQ(ref.bytes().data(), checked);
    EXPECT_EQ(f.cache.find(address_of(size), 0).bytes().data(), checked);
    {
      const GroupCache::Reservation dropped = f.cache.reserve(address_of(size), 1, size);
    }
    EXPECT_FALSE(f.has(size, 1));
  }
}

// GC-2
TEST(GroupCache, bytes_never_exceed_the_capacity_and_nothing_is_given_when_all_is_held) {
  Fixture f(2 * mebibyte);
  std::vector<GroupCache::Ref> held;
  std::uint64_t next = 0;
  for (const std::size_t size : {large, std::size_t{20'000}, std::size_t{100}}) {
    while (GroupCache::Ref ref = f.put(next++, 0, size)) {
      EXPECT_LE(f.cache.bytes(), f.cache.capacity());
      held.push_back(std::move(ref));
    }
  }
  EXPECT_GT(f.cache.bytes(), f.cache.capacity() * 9 / 10);
  for (const std::size_t size : {large, std::size_t{20'000}, std::size_t{100}}) {
    EXPECT_FALSE(f.cache.reserve(address_of(1000), 0, size));
  }
  held.clear();
  EXPECT_TRUE(f.put(2000, 0, large));
  EXPECT_TRUE(f.put(2001, 0, 5000));
}

TEST(GroupCache, small_groups_use_the_whole_capacity_and_give_it_back_to_large_ones) {
  Fixture f(4 * mebibyte);
  for (std::uint64_t i = 0; i < 4000; ++i) f.put(i, 0, 4000);
  EXPECT_GT(f.cache.bytes(), f.cache.capacity() * 9 / 10);
  const std::uint64_t slots = GroupCache::arena_bytes(f.cache.capacity()) / large;
  for (std::uint64_t i = 0; i < slots; ++i) ASSERT_TRUE(f.put(10'000 + i, 0, large));
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < slots; ++i) found += f.has(10'000 + i, 0);
  EXPECT_EQ(found, slots);
  EXPECT_LE(f.cache.bytes(), f.cache.capacity());
  for (std::uint64_t i = 0; i < slots; ++i) f.cache.erase(address_of(10'000 + i));
  for (std::uint64_t i = 0; i < 4000; ++i) f.put(20'000 + i, 0, 4000);
  EXPECT_GT(f.cache.bytes(), f.cache.capacity() * 9 / 10);
}

TEST(GroupCache, long_facts_are_counted) {
  Fixture f(mebibyte);
  f.put(1, 0, 100);
  const std::uint64_t usual = f.cache.bytes();
  f.cache.erase(address_of(1));
  for (const std::size_t size : {std::size_t{100}, large}) {
    const std::uint64_t before = f.cache.bytes();
    const std::uint64_t epoch = f.cache.erase_epoch(address_of(2));
    f.cache.reserve(address_of(2), size, size).publish(facts_of(1, std::string(5000, 'x')), epoch);
    EXPECT_GE(f.cache.bytes() - before, usual + 4900);
  }
  f.cache.erase(address_of(2));
  EXPECT_EQ(f.cache.bytes(), 0u);
}

TEST(GroupCache, facts_without_end_are_served_and_not_kept) {
  Fixture f(mebibyte);
  const GroupCache::Ref ref =
      f.cache.reserve(address_of(2), 0, 10).publish(facts_of(1, std::string(mebibyte, 'x')), 0);
  EXPECT_EQ(ref.facts().media_type.size(), mebibyte);
  EXPECT_FALSE(f.has(2, 0));
}

// GC-3
TEST(GroupCache, held_memory_is_never_reused) {
  Fixture f(mebibyte);
  for (const std::size_t size : {std::size_t{2000}, large}) {
    GroupCache::Ref erased = f.put(1, size, size, 42);
    f.cache.erase(address_of(1));
    GroupCache::Ref evicted = f.put(2, size, size, 43);
    for (std::uint64_t i = 10; i < 2000; ++i) f.put(i, size, size, 9);
    EXPECT_TRUE(all_are(erased.bytes(), 42));
    EXPECT_TRUE(all_are(evicted.bytes(), 43));
    EXPECT_EQ(erased.facts().size, size);
    EXPECT_LE(f.cache.bytes(), f.cache.capacity());
  }
}

TEST(GroupCache, what_is_held_is_not_evicted_for_nothing) {
  Fixture f(mebibyte);
  const GroupCache::Ref held = f.put(1, 0, large);
  for (std::uint64_t i = 10; i < 100; ++i) EXPECT_TRUE(f.put(i, 0, large));
  EXPECT_TRUE(f.has(1, 0));
}

// GC-3
TEST(GroupCache, a_slot_that_was_sent_by_file_is_not_rewritten_in_the_socket) {
  Fixture f(mebibyte);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  constexpr std::size_t part = 16 << 10;  // fits the socket at once
  {
    GroupCache::Ref ref = f.put(1, 0, large, 42);
    auto at = static_cast<off_t>(*ref.file_offset());
    const io::Hold hold = std::move(ref).to_hold(true);
    ASSERT_EQ(sendfile(ends[0], f.cache.file().descriptor(), &at, part), static_cast<ssize_t>(part));
  }
  f.cache.erase(address_of(1));
  const std::uint64_t slots = GroupCache::arena_bytes(f.cache.capacity()) / large;
  for (std::uint64_t i = 0; i < 2 * slots; ++i) EXPECT_TRUE(f.put(10 + i, 0, large, 9));
  EXPECT_EQ(f.arena.punches, 1);
  std::vector<std::byte> received(part);
  ASSERT_EQ(recv(ends[1], received.data(), part, MSG_WAITALL), static_cast<ssize_t>(part));
  EXPECT_TRUE(all_are(received, 42));
  close(ends[0]);
  close(ends[1]);
}

TEST(GroupCache, a_slot_that_was_not_sent_by_file_is_reused_as_it_is) {
  Fixture f(mebibyte);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const io::Hold hold = f.put(i, 0, large).to_hold(false);
  }
  EXPECT_EQ(f.arena.punches, 0);
}

// GC-4
TEST(GroupCache, after_erase_no_group_is_found_until_it_is_published_again) {
  Fixture f(32 * mebibyte);
  for (std::uint64_t group = 0; group < 200; ++group) f.put(1, group, group % 2 ? large : 100);
  f.put(2, 0, 100);
  f.cache.erase(address_of(1));
  for (std::uint64_t group = 0; group < 200; ++group) EXPECT_FALSE(f.has(1, group));
  EXPECT_TRUE(f.has(2, 0));
  f.put(1, 5, 100);
  EXPECT_TRUE(f.has(1, 5));
  EXPECT_FALSE(f.has(1, 6));
}

// GC-4
TEST(GroupCache, an_object_erased_since_it_was_looked_up_is_not_published) {
  Fixture f(mebibyte);
  const std::uint64_t epoch = f.cache.erase_epoch(address_of(1));
  GroupCache::Reservation reservation = f.cache.reserve(address_of(1), 0, 10);
  std::ranges::fill(reservation.bytes(), std::byte{5});
  f.cache.erase(address_of(1));
  const GroupCache::Ref ref = std::move(reservation).publish(facts_of(10), epoch);
  EXPECT_FALSE(f.has(1, 0));
  EXPECT_TRUE(all_are(ref.bytes(), 5));
}

// GC-5: whether the scan writes every object straight into the cache (0) or reads each one to three times.
class Scan : public testing::TestWithParam<std::tuple<int, std::size_t>> {};
TEST_P(Scan, does_not_push_out_what_is_used_again_and_again) {
  const auto [reads, size] = GetParam();
  Fixture f(16 * mebibyte);
  for (int round = 0; round < 4; ++round) {
    for (std::uint64_t i = 0; i < 100; ++i) f.read(i, 0, size);
  }
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    if (reads == 0) f.put(1000 + i, 0, size);
    for (int read = 0; read < reads; ++read) f.read(1000 + i, 0, size);
  }
  int left = 0;
  for (std::uint64_t i = 0; i < 100; ++i) left += f.has(i, 0);
  EXPECT_EQ(left, 100);
}
INSTANTIATE_TEST_SUITE_P(GroupCache, Scan,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(4000, large)));

TEST(GroupCache, a_miss_is_worth_a_slot_the_second_time_and_at_once_while_there_is_room) {
  Fixture f(4 * mebibyte);
  EXPECT_TRUE(f.cache.wants(address_of(1), 0));
  for (std::uint64_t i = 0; f.cache.bytes() < f.cache.capacity() / 2; ++i) f.put(100 + i, 0, large);
  EXPECT_FALSE(f.cache.wants(address_of(1), 0));
  EXPECT_FALSE(f.cache.wants(address_of(1), 1));
  EXPECT_TRUE(f.cache.wants(address_of(1), 0));
  for (std::uint64_t i = 0; i < 100'000; ++i) f.cache.wants(address_of(1000 + i), 0);
  EXPECT_FALSE(f.cache.wants(address_of(1), 0));  // long ago
}

TEST(GroupCache, stripes_share_the_memory) {
  Fixture f(16 * mebibyte);
  const std::uint64_t slots = GroupCache::arena_bytes(f.cache.capacity()) / large;
  for (std::uint64_t i = 0; i < slots; ++i) f.put(1, i, large);  // one object: one stripe
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < slots; ++i) found += f.has(1, i);
  EXPECT_EQ(found, slots);
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_TRUE(f.put(100 + i, 0, large));  // of other stripes
  found = 0;
  for (std::uint64_t i = 0; i < 50; ++i) found += f.has(100 + i, 0);
  EXPECT_EQ(found, 50u);
}

TEST(GroupCache, groups_of_a_part_lie_side_by_side) {
  Fixture f(128 * mebibyte);
  Readers readers(f, 1);
  for (std::uint64_t group = 0; group < 16; ++group) {
    for (std::uint64_t object = 0; object < 20; ++object) readers.bring(object, group, 16);  // all at once
  }
  for (std::uint64_t object = 0; object < 20; ++object) {
    const std::uint64_t first = *f.cache.find(address_of(object), 0).file_offset();
    for (std::uint64_t group = 1; group < 16; ++group)
      EXPECT_EQ(*f.cache.find(address_of(object), group).file_offset(), first + group * large);
  }
}

TEST(GroupCache, most_groups_still_lie_side_by_side_when_much_has_come_and_gone) {
  Fixture f(128 * mebibyte);
  Readers readers(f, 7);
  readers.read(100'000, 600);  // three times what fits
  const double joined = readers.joined(600);
  RecordProperty("joined_percent", static_cast<int>(joined * 100));
  EXPECT_GT(joined, 0.6);
  EXPECT_GT(f.cache.bytes(), f.cache.capacity() * 8 / 10);
}

TEST(GroupCache, two_readers_of_one_object_do_not_scatter_it) {
  Fixture f(128 * mebibyte);
  for (std::uint64_t group = 0; group < 16; ++group) {
    const std::uint64_t epoch = f.cache.erase_epoch(address_of(1));
    auto first = f.cache.reserve(address_of(1), group, large);
    auto second = f.cache.reserve(address_of(1), group, large);
    std::move(first).publish(facts_of(16 * large), epoch);
    std::move(second).publish(facts_of(16 * large), epoch);
  }
  EXPECT_EQ(*f.cache.find(address_of(1), 15).file_offset(),
            *f.cache.find(address_of(1), 0).file_offset() + 15 * large);
}

// CR-1
TEST(SlotRows, every_slot_is_given_once_whatever_is_wished) {
  for (const std::uint32_t slots : {1u, 14u, 16u, 40u, 1000u}) {
    SlotRows rows(slots);
    Random random(slots);
    std::vector<std::uint32_t> taken;
    for (int step = 0; step < 20'000; ++step) {
      if (random.chance(1, 2)) {
        const auto at = static_cast<unsigned>(random.below(16));
        const auto place = rows.take(
            {.part = random.below(80), .at = at, .count = 1 + static_cast<unsigned>(random.below(16 - at))});
        ASSERT_EQ(place.has_value(), taken.size() < slots);
        if (!place) continue;
        ASSERT_LT(place->index, slots);
        ASSERT_FALSE(std::ranges::find(taken, place->index) != taken.end());
        taken.push_back(place->index);
      } else if (random.chance(1, 10)) {
        if (const auto spare = rows.take_spare()) taken.push_back(spare->index);
      } else if (!taken.empty()) {
        std::swap(taken[random.below(taken.size())], taken.back());
        rows.give(taken.back(), static_cast<SlotRows::Memory>(random.below(3)));
        taken.pop_back();
      }
      ASSERT_EQ(rows.free(), slots - taken.size());
    }
  }
}

TEST(GroupCacheDeathTest, it_does_not_go_while_something_is_held) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto f = std::make_unique<Fixture>(mebibyte);
        const GroupCache::Ref ref = f->put(1, 0, 10);
        f.reset();
      },
      "used");
}

struct Key {
  std::uint64_t object, group;
  auto operator<=>(const Key&) const = default;
};

// Against a map that never evicts: what is found is what was published last, erased groups are not found,
// what is held stays, and as long as everything fits everything is found.
RC_GTEST_PROP(GroupCache, behaves_as_a_map_that_may_forget, ()) {
  const bool roomy = *rc::gen::arbitrary<bool>();
  Fixture f(roomy ? 64 * mebibyte : mebibyte, *rc::gen::arbitrary<std::uint64_t>());
  std::map<Key, std::pair<std::size_t, std::uint8_t>> model;
  struct Kept {
    GroupCache::Ref ref;
    std::size_t size;
    std::uint8_t mark;
  };
  std::vector<Kept> kept;
  std::uint8_t mark = 0;
  const auto steps = *rc::gen::container<std::vector<std::tuple<std::uint8_t, std::uint16_t, std::uint16_t>>>(
      200, rc::gen::arbitrary<std::tuple<std::uint8_t, std::uint16_t, std::uint16_t>>());
  for (const auto& [verb, which, length] : steps) {
    const Key key{which % 8u, which / 8u % 6u};
    const Address address = address_of(key.object);
    if (verb < 120) {
      const std::size_t size = verb < 60 ? length : length % 4000u;
      GroupCache::Ref ref = f.put(key.object, key.group, size, ++mark);
      if (roomy) RC_ASSERT(static_cast<bool>(ref));
      if (ref && (f.has(key.object, key.group))) model.try_emplace(key, size, mark);
      if (ref && f.cache.find(address, key.group).bytes().data() == ref.bytes().data()) {
        model[key] = {size, mark};  // the model's was evicted before
      }
      if (ref && verb % 4 == 0) kept.push_back({std::move(ref), size, mark});
    } else if (verb < 200) {
      const GroupCache::Ref ref = f.cache.find(address, key.group);
      const auto known = model.find(key);
      if (ref) {
        RC_ASSERT(known != model.end());
        RC_ASSERT(ref.bytes().size() == known->second.first);
        RC_ASSERT(all_are(ref.bytes(), known->second.second));
      }
      if (roomy) RC_ASSERT(static_cast<bool>(ref) == (known != model.end()));
    } else if (verb < 220) {
      f.cache.erase(address);
      std::erase_if(model, [&](const auto& entry) { return entry.first.object == key.object; });
    } else if (!kept.empty()) {
      Kept one = std::move(kept[length % kept.size()]);
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(length % kept.size()));
      RC_ASSERT(one.ref.bytes().size() == one.size);
      RC_ASSERT(all_are(one.ref.bytes(), one.mark));
      const io::Hold hold = std::move(one.ref).to_hold(verb % 2 == 0);
    }
    RC_ASSERT(f.cache.bytes() <= f.cache.capacity());
  }
  for (const Kept& one : kept) RC_ASSERT(all_are(one.ref.bytes(), one.mark));
  kept.clear();
  for (std::uint64_t object = 0; object < 8; ++object) f.cache.erase(address_of(object));
  RC_ASSERT(f.cache.bytes() == 0u);
}

// Each group's bytes say which group it is: memory that was reused under a reader shows.
TEST(GroupCache, threads_see_only_whole_groups_of_the_right_address) {
  Fixture f(8 * mebibyte);
  std::atomic<int> wrong = 0;
  auto work = [&](std::uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < 6000; ++i) {
      const std::uint64_t object = random.below(120), group = random.below(3);
      const auto mark = static_cast<std::uint8_t>(object * 3 + group);
      const std::size_t size = object % 2 == 0 ? large : 1000 + object;
      if (random.chance(1, 30)) f.cache.erase(address_of(object));
      GroupCache::Ref ref = f.cache.find(address_of(object), group);
      if (!ref) ref = f.put(object, group, size, mark);
      if (!ref) continue;
      const ByteView bytes = ref.bytes();
      if (bytes.size() != size || ref.facts().size != size) ++wrong;
      if (bytes.front() != std::byte{mark} || bytes.back() != std::byte{mark}) ++wrong;
      const io::Hold hold = std::move(ref).to_hold(random.chance(1, 4));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) threads.emplace_back(work, seed);
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(f.cache.bytes(), f.cache.capacity());
}

}  // namespace
}  // namespace cairn::store
