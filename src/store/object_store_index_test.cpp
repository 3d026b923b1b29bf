// An index that is damaged while it is in use, and the one that takes its place.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "store/index_place.h"
#include "store/simulated_store.h"

namespace cairn::store {
namespace {

struct Damaged : SimulatedStore {
  using SimulatedStore::SimulatedStore;
  // A part of the objects' keys cannot be read any more.
  void damage(std::string from = "o\x40", std::string until = "o\x90") {
    maker.damage(index_path("data", store->index_number()), std::move(from), std::move(until));
  }
  Result<> remake() { return run(store->home().index_keeper().replace_index(call())); }
  bool has(std::string_view path) { return disk().view().find(std::string(path)) != nullptr; }
  // The index as a start without any would make it.
  std::vector<KvPair> made_anew() {
    stop();
    io::sim::Image bare = disk().view();
    std::erase_if(bare.names, [](const auto& name) { return name.first.starts_with("data/index"); });
    disk().load(bare);
    CHECK(open());
    return index();
  }
};

TEST(DamagedIndex, what_it_cannot_answer_is_degraded_never_absent_and_never_integrity) {
  Damaged s;
  ASSERT_TRUE(s.open());
  std::vector<std::string> contents;
  for (std::uint64_t i = 0; i < 60; ++i) contents.push_back(sample(300, i + 1));
  for (const std::string& bytes : contents) ASSERT_TRUE(s.put(bytes));
  s.damage();
  std::size_t refused = 0;
  for (const std::string& bytes : contents) {
    const Address address = address_of(bytes);
    const auto read = s.read(address);
    if (read) {
      EXPECT_EQ(*read, bytes);
      continue;
    }
    ++refused;
    EXPECT_EQ(read.error().code, ErrorCode::degraded);
    EXPECT_EQ(code_of(s.put(bytes)), ErrorCode::degraded);
    EXPECT_EQ(code_of(s.remove(address)), ErrorCode::degraded);
    EXPECT_EQ(code_of(s.pin(address)), ErrorCode::degraded);
  }
  EXPECT_GT(refused, 5u);
  EXPECT_LT(refused, 40u);
  EXPECT_EQ(code_of(s.run(s.port().list(s.call(), "", std::nullopt, 1000))), ErrorCode::degraded);
  EXPECT_TRUE(s.store->status().index_damaged);
  EXPECT_FALSE(s.store->status().fenced);
  EXPECT_TRUE(s.store->writable());
  EXPECT_TRUE(s.put("something else"));
}

TEST(DamagedIndex, a_new_one_takes_its_place_and_answers_everything) {
  Damaged s(7, 2);
  ASSERT_TRUE(s.open());
  std::vector<std::string> contents;
  for (std::uint64_t i = 0; i < 700; ++i) contents.push_back(sample(100 + i, i + 1));
  for (const std::string& bytes : contents) ASSERT_TRUE(s.put(bytes));
  for (std::size_t i = 0; i < 100; ++i) ASSERT_TRUE(s.remove(address_of(contents[i])));
  ASSERT_TRUE(s.pin(address_of(contents[100])));
  const Ulid open_upload = s.begin()->token;
  ASSERT_TRUE(s.part(open_upload, 0, sample(5000, 9999)));
  const auto before = s.index();
  s.damage();
  ASSERT_EQ(code_of(s.run(s.store->home().scrubber().scrub_once(s.call()))), ErrorCode::degraded);
  ASSERT_TRUE(s.store->status().index_damaged);
  const auto remade = s.remake();
  ASSERT_TRUE(remade) << remade.error().context;
  EXPECT_FALSE(s.store->status().index_damaged);
  EXPECT_EQ(s.store->index_number(), 1u);
  EXPECT_TRUE(are_equal(before, s.index()));
  EXPECT_EQ(s.store->status().objects, 600u);
  for (unsigned shard = 0; shard < 2; ++shard)
    for (std::size_t i = 0; i < contents.size(); ++i)
      EXPECT_EQ(code_of(s.read(address_of(contents[i]), shard)),
                i < 100 ? ErrorCode::not_found : ErrorCode::ok);
  EXPECT_EQ(s.list().size(), 600u);
  EXPECT_TRUE(s.commit(open_upload));
  EXPECT_TRUE(s.put("and on"));
  EXPECT_FALSE(s.has("data/index/map")) << "the old one is gone when nobody asks it any more";
  EXPECT_FALSE(s.has("data/index.damaged"));
  // And once more, after a start.
  ASSERT_TRUE(s.close());
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.store->index_number(), 1u);
  EXPECT_TRUE(s.read(address_of("and on")));
  s.damage();
  EXPECT_EQ(code_of(s.run(s.store->home().scrubber().scrub_once(s.call()))), ErrorCode::degraded);
  ASSERT_TRUE(s.remake());
  EXPECT_EQ(s.store->index_number(), 2u);
  EXPECT_EQ(s.list().size(), 602u);
}

TEST(DamagedIndex, the_scrubber_finds_damage_that_nobody_asks_about) {
  Damaged s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put("something"));
  ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
  s.damage("y", "z");
  EXPECT_EQ(code_of(s.run(s.store->home().scrubber().scrub_once(s.call()))), ErrorCode::degraded);
  EXPECT_TRUE(s.store->status().index_damaged);
}

// The log has lost the head of a record: only the index knows that there was an object.
TEST(DamagedIndex, what_is_known_to_be_lost_is_known_to_the_new_one) {
  Damaged s;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(s.put(sample(3000, i)));
  const std::string segment = segment_path("data/segments", 1);
  const std::uint64_t at = s.disk().view().text(segment).find(sample(3000, 2));
  ASSERT_TRUE(s.disk().rot(segment, at - 60));
  ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
  ASSERT_EQ(s.store->status().quarantined, 1u);
  s.damage("w", "x");
  s.store->distrust_index(0);
  ASSERT_TRUE(s.remake());
  EXPECT_EQ(s.store->status().quarantined, 1u);
  EXPECT_EQ(s.store->status().objects, 3u);
  s.cache().erase(address_of(sample(3000, 2)));
  EXPECT_EQ(code_of(s.read(address_of(sample(3000, 2)))), ErrorCode::integrity);
  EXPECT_TRUE(s.read(address_of(sample(3000, 3))));
  EXPECT_TRUE(s.put(sample(3000, 2)));
  EXPECT_TRUE(s.read(address_of(sample(3000, 2))));
  EXPECT_EQ(s.store->status().quarantined, 0u);
}

TEST(DamagedIndex, nothing_is_taken_away_by_its_word) {
  Damaged s;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(s.put(sample(300, i + 1)));
  for (std::uint64_t i = 0; i < 15; ++i) ASSERT_TRUE(s.remove(address_of(sample(300, i + 1))));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  s.store->distrust_index(0);
  EXPECT_EQ(s.compact(), Result<unsigned>(0));
  EXPECT_TRUE(s.has(segment_path("data/segments", 1)));
  ASSERT_TRUE(s.remake());
  EXPECT_EQ(s.compact(), Result<unsigned>(1));
  EXPECT_EQ(s.list().size(), 5u);
}

TEST(DamagedIndex, damage_that_nobody_asks_for_is_found_and_mended_by_the_tasks) {
  Damaged s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put("one"));
  s.damage("w", "x");
  s.tasks().spawn("scrub", s.store->home().scrubber().scrub_loop(s.tasks().call()));
  s.tasks().spawn("index", s.store->home().index_keeper().index_loop(s.tasks().call()));
  ASSERT_TRUE(s.world.run_until([&] { return s.store->index_number() == 1; }));
  ASSERT_TRUE(s.world.run_until([&] { return !s.has("data/index/map"); }));
  EXPECT_FALSE(s.store->status().index_damaged);
  EXPECT_TRUE(s.read(address_of("one")));
}

// Random changes while it is made: the new index has all of them, as one made from the log has.
TEST(DamagedIndex, changes_go_on_while_a_new_one_is_made_and_none_is_missed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Damaged s(seed);
    Random random(seed);
    s.options.segment_size = 256 << 10;
    ASSERT_TRUE(s.open());
    std::map<std::string, bool> there;  // content → whether it must be
    for (std::uint64_t i = 0; i < 60; ++i) {
      ASSERT_TRUE(s.put(sample(2000 + i, i)));
      there[sample(2000 + i, i)] = true;
    }
    s.damage();
    s.store->distrust_index(0);
    auto remade = s.start(s.store->home().index_keeper().replace_index(s.call()));
    for (std::uint64_t i = 100; !remade->has_value(); ++i) {
      const std::string bytes = sample(1 + random.below(20'000), i);
      const auto put = s.put(bytes);
      if (put)
        there[bytes] = true;
      else
        EXPECT_EQ(put.error().code, ErrorCode::degraded);
      auto victim = there.begin();
      std::advance(victim, random.below(there.size()));
      if (random.chance(1, 2)) {
        const auto removed = s.remove(address_of(victim->first));
        if (removed)
          victim->second = false;
        else
          EXPECT_EQ(removed.error().code, victim->second ? ErrorCode::degraded : code_of(removed));
      } else if (random.chance(1, 4)) {
        (void)s.pin(address_of(victim->first));
      }
    }
    ASSERT_TRUE(**remade) << (**remade).error().context;
    ASSERT_GT(there.size(), 62u) << "nothing was written meanwhile";
    for (const auto& [bytes, is] : there)
      EXPECT_EQ(code_of(s.read(address_of(bytes))), is ? ErrorCode::ok : ErrorCode::not_found) << seed;
    const auto made = without_point(s.index());
    EXPECT_TRUE(are_equal(made, without_point(s.made_anew()))) << seed;
  }
}

// A change that is in the log and not in the index is not answered as done, and comes with the new index.
TEST(DamagedIndex, one_that_cannot_follow_the_log_refuses_changes_until_another_does) {
  Damaged s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put("first"));
  ASSERT_TRUE(s.remove(address_of("first")));  // from now on tombstones are looked for
  ASSERT_TRUE(s.put("cached"));
  ASSERT_TRUE(s.read(address_of("cached")));
  ASSERT_TRUE(s.cache().find(address_of("cached"), 0));
  const std::string shadow(tombstone_key(address_of("cached")));
  s.damage(shadow, shadow + '\0');
  EXPECT_EQ(code_of(s.remove(address_of("cached"))), ErrorCode::degraded);
  EXPECT_TRUE(s.store->status().index_damaged);
  EXPECT_FALSE(s.store->status().fenced);
  EXPECT_EQ(code_of(s.put("more")), ErrorCode::degraded) << "although nothing that it needs is damaged";
  EXPECT_TRUE(s.read(address_of("cached"))) << "it reads as before the change";
  const auto remade = s.remake();
  ASSERT_TRUE(remade) << remade.error().context;
  EXPECT_EQ(code_of(s.read(address_of("cached"))), ErrorCode::not_found) << "the removal was durable";
  EXPECT_FALSE(s.cache().find(address_of("cached"), 0)) << "nor is it answered from memory";
  EXPECT_TRUE(s.put("more"));
  EXPECT_TRUE(s.read(address_of("more")));
}

TEST(DamagedIndex, without_room_for_two_it_is_told_and_the_next_start_makes_it_anew) {
  Damaged s;
  ASSERT_TRUE(s.open());
  std::vector<std::string> contents;
  for (std::uint64_t i = 0; i < 60; ++i) contents.push_back(sample(300, i + 1));
  for (const std::string& bytes : contents) ASSERT_TRUE(s.put(bytes));
  s.damage();
  s.disk().set_capacity(s.disk().used() + 1000);
  s.store->distrust_index(0);
  s.tasks().spawn("index", s.store->home().index_keeper().index_loop(s.tasks().call()));
  ASSERT_TRUE(s.world.run_until([&] { return s.store->status().index_lacks_room.load(); }));
  EXPECT_TRUE(s.store->status().index_damaged);
  EXPECT_EQ(s.store->index_number(), 0u);
  s.stop();
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_FALSE(s.store->status().index_damaged);
  for (const std::string& bytes : contents) EXPECT_TRUE(s.read(address_of(bytes)));
  EXPECT_FALSE(s.has("data/index.damaged"));
}

TEST(DamagedIndex, when_there_is_room_again_it_is_made_without_a_start) {
  Damaged s;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(s.put(sample(300, i + 1)));
  s.damage();
  s.disk().set_capacity(s.disk().used() + 1000);
  s.store->distrust_index(0);
  s.tasks().spawn("index", s.store->home().index_keeper().index_loop(s.tasks().call()));
  ASSERT_TRUE(s.world.run_until([&] { return s.store->status().index_lacks_room.load(); }));
  s.disk().set_capacity(1 << 30);
  ASSERT_TRUE(s.world.run_until([&] { return s.store->index_number() == 1; }));
  EXPECT_FALSE(s.store->status().index_lacks_room);
}

// Every moment of making a new index, and what a crash then may leave.
TEST(DamagedIndex, a_crash_while_a_new_one_is_made_leaves_one_that_answers_everything) {
  Damaged s;
  ASSERT_TRUE(s.open());
  std::vector<std::string> contents;
  for (std::uint64_t i = 0; i < 20; ++i) contents.push_back(sample(300, i + 1));
  for (const std::string& bytes : contents) ASSERT_TRUE(s.put(bytes));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  s.damage();
  s.store->distrust_index(0);
  std::vector<io::sim::DiskSnapshot> moments;
  s.disk().set_observer([&](const io::sim::SimDisk& now) { moments.push_back(now.snapshot()); });
  ASSERT_TRUE(s.remake());
  s.disk().set_observer({});
  ASSERT_GT(moments.size(), 8u);
  s.stop();
  std::set<std::uint64_t> seen;
  std::size_t old = 0, fresh = 0, anew = 0;
  io::sim::CrashOptions few;
  few.exhaustive = 3;
  few.random = 4;
  for (const io::sim::DiskSnapshot& moment : moments)
    io::sim::crash_states(
        moment,
        [&](const io::sim::CrashState& state) {
          if (!seen.insert(state.hash).second) return true;
          Damaged t;
          t.disk().load(state.image);
          t.maker.damage("data/index", "o\x40", "o\x90");
          const bool marked = t.has("data/index.damaged");
          EXPECT_TRUE(t.open());
          (marked ? anew : t.store->index_number() == 0 ? old : fresh) += 1;
          for (const std::string& bytes : contents) {
            const auto read = t.read(address_of(bytes));
            EXPECT_TRUE(read || read.error().code == ErrorCode::degraded) << name_of(read.error().code);
            EXPECT_TRUE(read || (!marked && t.store->index_number() == 0));
          }
          if (t.store->status().index_damaged) EXPECT_TRUE(t.remake());
          for (const std::string& bytes : contents) EXPECT_TRUE(t.read(address_of(bytes)));
          EXPECT_EQ(t.list().size(), contents.size());
          EXPECT_TRUE(t.put("and on"));
          return !testing::Test::HasFailure();
        },
        few);
  EXPECT_GT(old, 0u);
  EXPECT_GT(fresh, 0u);
  EXPECT_GT(anew, 0u);
}

// What an older copy of an index may claim of segments that changed since.
TEST(DamagedIndex, one_that_contradicts_itself_is_made_anew_and_ends_nothing) {
  Damaged s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put(sample(500, 1)));
  ASSERT_TRUE(s.put(sample(500, 2)));
  {
    auto kv = s.store->index()->engine->make_port(s.machine());
    KvBatch wrong;
    wrong.put(segment_key(1), std::string(8, '\0'));
    ASSERT_TRUE(s.run(kv->write(s.call(), std::move(wrong))));
  }
  ASSERT_TRUE(s.close());
  const std::string map = s.disk().view().text("data/index/map");
  ASSERT_TRUE(s.open());
  EXPECT_EQ(code_of(s.remove(address_of(sample(500, 1)))), ErrorCode::degraded);
  EXPECT_TRUE(s.store->status().index_damaged);
  ASSERT_TRUE(s.remake());
  EXPECT_EQ(s.list().size(), 1u);
  EXPECT_TRUE(s.put("more"));
  // The same at a start, when the log has what the copy does not know.
  ASSERT_TRUE(s.close());
  s.disk().put("data/index.1/map", map);
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_FALSE(s.store->status().index_damaged);
  EXPECT_EQ(s.list().size(), 2u);
  EXPECT_TRUE(s.read(address_of("more")));
  EXPECT_EQ(code_of(s.read(address_of(sample(500, 1)))), ErrorCode::not_found);
  EXPECT_TRUE(s.remove(address_of("more")));
}

TEST(DamagedIndex, an_entry_that_does_not_decode_is_damage_and_not_rot) {
  Damaged s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put("good bytes"));
  {
    auto kv = s.store->index()->engine->make_port(s.machine());
    KvBatch wrong;
    wrong.put(std::string(object_key(address_of("good bytes"))), "nonsense");
    ASSERT_TRUE(s.run(kv->write(s.call(), std::move(wrong))));
  }
  EXPECT_EQ(code_of(s.read(address_of("good bytes"))), ErrorCode::degraded);
  EXPECT_EQ(code_of(s.remove(address_of("good bytes"))), ErrorCode::degraded);
  ASSERT_TRUE(s.remake());
  EXPECT_TRUE(s.read(address_of("good bytes")));
}

}  // namespace
}  // namespace cairn::store
