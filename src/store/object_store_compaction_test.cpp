#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/wait.h"
#include "store/encoding.h"
#include "store/segment.h"
#include "store/simulated_store.h"

namespace cairn::store {
namespace {

using Pairs = std::map<std::string, std::string>;
Pairs pairs_of(SimulatedStore& s) {
  Pairs all;
  for (const KvPair& pair : s.index())
    if (pair.key != log_point_key()) all[pair.key] = pair.value;  // a segment may have ended since
  return all;
}
// The first letters of the keys that are not the same.
std::string difference(const Pairs& a, const Pairs& b) {
  std::string keys;
  for (const auto& [key, value] : a)
    if (const auto found = b.find(key); found == b.end() || found->second != value) keys += key[0];
  for (const auto& [key, value] : b)
    if (!a.contains(key)) keys += key[0];
  return keys;
}
// The index as it would be made anew from the log alone.
Pairs made_anew(SimulatedStore& s) {
  s.stop();
  CHECK(s.run(s.machine().disk.unlink(s.call(), "data/index/map")));
  s.make_cache();
  CHECK(s.open());
  return pairs_of(s);
}
std::size_t count_of(const Pairs& pairs, char prefix) {
  return static_cast<std::size_t>(
      std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first[0] == prefix; }));
}
void roll(SimulatedStore& s) { ASSERT_TRUE(s.run(s.store->home().roll(s.call()))); }
std::vector<std::string> segments(SimulatedStore& s) {
  std::vector<std::string> all;
  for (const std::string& name : s.disk().view().list("data/segments"))
    if (name.ends_with(".seg")) all.push_back(name);
  return all;
}

TEST(Compaction, dead_space_is_reclaimed_and_what_lives_stays) {
  SimulatedStore s;
  s.options.segment_size = 256 << 10;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(s.put(sample(5000, i + 1)));
  const std::uint64_t full = s.store->status().log_bytes;
  for (std::uint64_t i = 0; i < 200; ++i)
    if (i % 10 != 0) ASSERT_TRUE(s.remove(address_of(sample(5000, i + 1))));
  roll(s);
  ASSERT_TRUE(s.compact());
  EXPECT_LT(s.store->status().log_bytes, full / 4);
  EXPECT_LT(s.disk().view().bytes() - 2 * removal_slot_size, full / 4);
  for (std::uint64_t i = 0; i < 200; i += 10)
    EXPECT_TRUE(s.read(address_of(sample(5000, i + 1))) == Result<std::string>(sample(5000, i + 1)));
  EXPECT_EQ(s.list().size(), 20u);
  const Pairs kept = pairs_of(s);
  EXPECT_EQ(difference(kept, made_anew(s)), "");
}

TEST(Compaction, what_was_written_into_longer_segments_is_moved_into_shorter_ones) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::string lives = sample(600'000, 1);
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(s.put(sample(600'000, i)));
  for (std::uint64_t i = 2; i <= 4; ++i) ASSERT_TRUE(s.remove(address_of(sample(600'000, i))));
  roll(s);
  ASSERT_TRUE(s.close());
  s.options.segment_size = 64 << 10;
  ASSERT_TRUE(s.open());
  const auto rounds = s.compact();
  ASSERT_TRUE(rounds);
  EXPECT_GE(*rounds, 1u);
  EXPECT_EQ(s.disk().view().find(segment_path("data/segments", 1)), nullptr);
  s.forget_cached({address_of(lives)});
  EXPECT_EQ(s.read(address_of(lives)), Result<std::string>(lives));
  EXPECT_EQ(s.list().size(), 1u);
  const Pairs kept = pairs_of(s);
  EXPECT_EQ(difference(kept, made_anew(s)), "");
  EXPECT_EQ(s.read(address_of(lives)), Result<std::string>(lives));
}

struct Counts {
  std::uint64_t segments = 0, bytes = 0, dead = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend void PrintTo(const Counts& counts, std::ostream* out) {
    *out << counts.segments << " segments, " << counts.bytes << " bytes, " << counts.dead << " dead";
  }
};
Counts told(SimulatedStore& s) {
  const StoreStatus& status = s.store->status();
  return {status.segments, status.log_bytes, status.dead_bytes};
}
// By the files, and by what the index says of each. Without zeros that are written ahead.
Counts counted(SimulatedStore& s) {
  CHECK(!s.options.fsync);
  Counts counts;
  std::map<std::string, std::uint64_t> live;
  for (const KvPair& pair : s.index()) {
    if (pair.key.front() != segment_prefix) continue;
    CHECK(FieldReader(as_bytes(pair.value)).number(live[pair.key]).complete());
  }
  std::uint64_t alive = 0;
  for (const std::string& name : segments(s)) {
    ++counts.segments;
    counts.bytes += s.disk().view().text("data/segments/" + name).size();
    alive += live[segment_key(*parse_segment_name(name))];
  }
  counts.dead = counts.bytes - alive;
  return counts;
}

TEST(Compaction, the_totals_that_are_told_are_those_of_a_full_count) {
  SimulatedStore s;
  s.options.segment_size = 64 << 10;
  s.options.fsync = false;
  ASSERT_TRUE(s.open());
  Random random(5);
  std::vector<Address> there;
  std::uint64_t most = 0, compacted = 0;
  for (std::uint64_t step = 0; step < 600; ++step) {
    const std::uint64_t act = random.next() % 20;
    if (act < 10 || there.empty()) {
      there.push_back(s.put(sample(random.next() % 9000, step))->address);
    } else if (act < 15) {
      const std::size_t which = random.next() % there.size();
      ASSERT_TRUE(s.remove(there[which]));
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (act < 17) {
      const Ulid token = s.begin()->token;
      ASSERT_TRUE(s.part(token, 0, sample(3000, step)));
      ASSERT_TRUE(s.part(token, 0, sample(3500, step)));
      if (act == 15)
        ASSERT_TRUE(s.abort(token));
      else
        there.push_back(s.commit(token)->address);
    } else if (act == 17) {
      compacted += *s.compact();
    } else if (act == 18) {
      ASSERT_TRUE(s.run(s.store->home().index_keeper().replace_index(s.call())));
    } else {
      ASSERT_TRUE(s.close());
      ASSERT_TRUE(s.open());
    }
    ASSERT_EQ(told(s), counted(s)) << step << " " << act;
    most = std::max(most, told(s).segments);
  }
  EXPECT_GT(most, 5u);
  EXPECT_GT(compacted, 5u);
}

TEST(Compaction, what_lives_in_a_lost_segment_is_not_told_as_living) {
  SimulatedStore s;
  s.options.fsync = false;
  ASSERT_TRUE(s.open());
  std::vector<Address> lost;
  for (std::uint64_t i = 0; i < 4; ++i) lost.push_back(s.put(sample(5000, i))->address);
  roll(s);
  for (std::uint64_t i = 10; i < 14; ++i) ASSERT_TRUE(s.put(sample(5000, i)));
  ASSERT_TRUE(s.remove(address_of(sample(5000, 11))));
  ASSERT_TRUE(s.close());
  ASSERT_TRUE(s.run(s.machine().disk.unlink(s.call(), segment_path("data/segments", 1))));
  s.make_cache();
  ASSERT_TRUE(s.open());
  ASSERT_EQ(s.store->status().lost_segments, 1u);
  const Counts before = told(s);
  EXPECT_EQ(before, counted(s));
  EXPECT_GT(before.dead, 5000u);
  ASSERT_TRUE(s.remove(lost[0]));
  EXPECT_EQ(told(s), counted(s));
  ASSERT_TRUE(s.put(sample(700, 20)));
  EXPECT_EQ(told(s), counted(s));
  ASSERT_TRUE(s.run(s.store->home().index_keeper().replace_index(s.call())));
  EXPECT_EQ(told(s), counted(s));
  ASSERT_TRUE(s.run(s.store->home().sweeper().accept_losses_once(s.call())));
  EXPECT_EQ(told(s), counted(s));
}

struct Reading {
  bool over = false;
  unsigned ended = 0;
  std::uint64_t reads = 0;
  std::string problem;

  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test waits for its end
  Task<> go_on(Call call, StorePort& port, GroupCache& cache, const std::vector<std::string>& contents) {
    for (std::size_t i = 0; !over && problem.empty(); ++i) {
      const std::string& bytes = contents[i % contents.size()];
      cache.erase(address_of(bytes));
      const auto read = co_await SimulatedStore::read_task(call, port, address_of(bytes));
      if (!read)
        problem = read.error().context;
      else if (*read != bytes)
        problem = "other bytes";
      ++reads;
      (void)co_await sleep_for(call, Duration::micros(50));
    }
    ++ended;
  }
};

TEST(Compaction, readers_never_fail_while_it_goes_on) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SimulatedStore s(seed, 2);
    s.options.segment_size = 300 << 10;
    ASSERT_TRUE(s.open());
    s.disk().faults.cold = 200'000;
    std::vector<std::string> contents;
    for (std::uint64_t i = 0; i < 12; ++i) contents.push_back(sample(i % 3 == 0 ? 66000 : 4000, i + 1));
    for (const std::string& bytes : contents) ASSERT_TRUE(s.put(bytes));
    Reading reading;
    for (unsigned shard = 0; shard < 2; ++shard)
      s.node.scope(shard).spawn("reader", reading.go_on(s.call(shard), s.port(shard), s.cache(), contents));
    for (std::uint64_t round = 0; round < 8; ++round) {
      for (std::uint64_t i = 0; i < 6; ++i) {
        ASSERT_TRUE(s.put(sample(9000, 100 + round * 10 + i)));
        ASSERT_TRUE(s.remove(address_of(sample(9000, 100 + round * 10 + i))));
      }
      roll(s);
      ASSERT_TRUE(s.compact());
    }
    reading.over = true;
    ASSERT_TRUE(s.world.run_until([&] { return reading.ended == 2; }));
    EXPECT_EQ(reading.problem, "");
    EXPECT_GT(reading.reads, 100u);
    EXPECT_EQ(s.store->status().quarantined, 0u);
    EXPECT_EQ(segments(s).size(), s.store->status().segments);
  }
}

TEST(Compaction, a_tombstone_lives_exactly_until_no_segment_holds_the_address) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(3000);
  // A segment that is mostly alive and so not worth compacting, with one copy.
  ASSERT_TRUE(s.put(bytes));
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(s.put(sample(3000, i + 10)));
  roll(s);
  ASSERT_TRUE(s.remove(address_of(bytes)));
  roll(s);
  // The segment with the removal is dead but for it.
  ASSERT_TRUE(s.compact());
  EXPECT_EQ(count_of(pairs_of(s), tombstone_prefix), 1u);
  {
    const Pairs kept = pairs_of(s);
    EXPECT_EQ(difference(kept, made_anew(s)), "");
  }
  EXPECT_EQ(code_of(s.read(address_of(bytes))), ErrorCode::not_found);
  // The copy goes: nothing is to be shadowed any more.
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(s.remove(address_of(sample(3000, i + 10))));
  roll(s);
  ASSERT_TRUE(s.compact());
  roll(s);
  ASSERT_TRUE(s.compact());
  EXPECT_EQ(count_of(pairs_of(s), tombstone_prefix), 0u);
  {
    const Pairs kept = pairs_of(s);
    EXPECT_EQ(difference(kept, made_anew(s)), "");
  }
  EXPECT_TRUE(s.list().empty());
  EXPECT_LE(s.store->status().log_bytes, 2 * 4096u);
}

TEST(Compaction, pins_and_quarantines_survive_that_their_object_is_moved_behind_them) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Address pinned = s.put(sample(3000, 1))->address;
  const Address unpinned = s.put(sample(3000, 2))->address;
  ASSERT_TRUE(s.pin(unpinned));
  ASSERT_TRUE(s.put(sample(9000, 3)));
  ASSERT_TRUE(s.remove(address_of(sample(9000, 3))));
  roll(s);
  // In a segment that stays: it is mostly alive.
  ASSERT_TRUE(s.pin(pinned));
  ASSERT_TRUE(s.pin(unpinned, false));
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(s.put(sample(9000, i + 10)));
  roll(s);
  ASSERT_EQ(*s.compact(), 1u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(code_of(s.remove(pinned)), ErrorCode::pinned);
    const Pairs kept = pairs_of(s);
    EXPECT_EQ(difference(kept, made_anew(s)), "");
    for (const Listed& one : s.list()) EXPECT_EQ(one.pinned, one.address == pinned);
  }
}

TEST(Compaction, a_pin_of_an_earlier_life_does_not_come_back) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Address address = s.put(sample(3000, 1))->address;
  ASSERT_TRUE(s.pin(address));
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(s.put(sample(9000, i + 10)));
  roll(s);  // stays, with the pin in it
  ASSERT_TRUE(s.pin(address, false));
  ASSERT_TRUE(s.remove(address));
  ASSERT_TRUE(s.put(sample(3000, 1)));
  roll(s);
  ASSERT_TRUE(s.compact());
  const Pairs kept = pairs_of(s);
  EXPECT_EQ(difference(kept, made_anew(s)), "");
  for (const Listed& one : s.list()) EXPECT_FALSE(one.pinned);
}

TEST(Compaction, a_pin_of_an_earlier_life_does_not_come_back_when_the_removal_is_moved_last) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Address address = s.put(sample(3000, 1))->address;
  ASSERT_TRUE(s.pin(address));
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(s.put(sample(9000, i + 10)));
  roll(s);  // stays, with the pin in it
  ASSERT_TRUE(s.pin(address, false));
  ASSERT_TRUE(s.remove(address));
  ASSERT_TRUE(s.put(sample(2000, 2)));
  roll(s);  // two thirds are dead
  ASSERT_TRUE(s.put(sample(3000, 1)));
  ASSERT_TRUE(s.put(sample(20'000, 3)));
  ASSERT_TRUE(s.remove(address_of(sample(20'000, 3))));
  roll(s);  // nearly all is dead: it is moved first
  ASSERT_EQ(*s.compact(), 2u);
  const Pairs kept = pairs_of(s);
  EXPECT_EQ(difference(kept, made_anew(s)), "");
  for (const Listed& one : s.list()) EXPECT_FALSE(one.pinned);
}

TEST(Compaction, a_removal_that_moves_takes_nothing_away_that_was_stored_after_it) {
  SimulatedStore s;
  s.options.segment_size = 64 << 10;
  ASSERT_TRUE(s.open());
  const auto roll = [&] { ASSERT_TRUE(s.run(s.store->home().roll(s.call()))); };
  const std::string again = sample(300, 1), dead = sample(25'000, 2);
  ASSERT_TRUE(s.put(again));
  ASSERT_TRUE(s.put(sample(20'000, 3)));  // keeps the first copy's segment
  roll();
  ASSERT_TRUE(s.remove(address_of(again)));
  ASSERT_TRUE(s.put(dead));
  roll();
  ASSERT_TRUE(s.put(again));
  ASSERT_TRUE(s.put(sample(20'000, 4)));
  roll();
  ASSERT_TRUE(s.remove(address_of(dead)));
  const auto rounds = s.compact();
  ASSERT_TRUE(rounds);
  EXPECT_EQ(*rounds, 1u) << "only the segment with the removal is worth it";
  EXPECT_TRUE(s.read(address_of(again)));
  s.cache().erase(address_of(again));
  EXPECT_EQ(s.list().size(), 3u);
}

TEST(Compaction, parts_of_an_upload_that_the_log_no_longer_knows_are_dropped) {
  SimulatedStore s;
  s.options.upload_ttl = Duration::seconds(3600);
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin()->token;
  roll(s);
  ASSERT_TRUE(s.part(token, 0, sample(3000, 1)));
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(s.put(sample(9000, i + 10)));
  roll(s);  // stays, with the part in it
  ASSERT_TRUE(s.abort(token));
  roll(s);
  s.world.run_for(Duration::seconds(3601));
  ASSERT_EQ(*s.compact(), 2u);
  const Pairs kept = pairs_of(s);
  EXPECT_EQ(count_of(kept, part_prefix), 0u);
  EXPECT_EQ(difference(kept, made_anew(s)), "");
}

TEST(Compaction, an_aborted_upload_does_not_come_back) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, sample(3000, 1)));
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(s.put(sample(9000, i + 10)));
  roll(s);  // stays
  ASSERT_TRUE(s.abort(token));
  roll(s);
  ASSERT_TRUE(s.compact());
  const Pairs kept = pairs_of(s);
  EXPECT_EQ(difference(kept, made_anew(s)), "");
  EXPECT_FALSE(s.upload(token)->has_value());
  EXPECT_EQ(s.store->status().uploads, 0u);
}

// How many records of a kind are in the log, copies and all.
std::size_t count_records(SimulatedStore& s, RecordKind kind) {
  std::size_t count = 0;
  for (const std::string& name : segments(s)) {
    const std::string bytes = s.disk().view().text("data/segments/" + name);
    for (std::size_t at = segment_header_size; at < bytes.size() && bytes.compare(at, 4, "cnrc") == 0;) {
      RecordHeader header;
      std::memcpy(&header.meta_size, bytes.data() + at + 8, 4);
      std::memcpy(&header.data_size, bytes.data() + at + 12, 4);
      count += static_cast<std::uint8_t>(bytes[at + 4]) == static_cast<std::uint8_t>(kind) ? 1 : 0;
      at += static_cast<std::size_t>(header.size());
    }
  }
  return count;
}

// Each time a segment stays although what it had was moved, there is one copy more of what no entry points
// to. They must not be copied as if they were all needed: that would double them with every crash.
TEST(Compaction, copies_that_a_broken_off_move_left_become_one_again) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(3000, 1);
  ASSERT_TRUE(s.put(bytes));
  ASSERT_TRUE(s.pin(address_of(bytes)));
  ASSERT_TRUE(s.abort(s.begin()->token));
  for (int round = 0; round < 8; ++round) {
    roll(s);
    s.disk().fail_call(io::sim::DiskCall::unlink, 1, io::sim::DiskFailure::error, true);
    EXPECT_FALSE(s.compact());
    s.disk().heal();
  }
  EXPECT_GT(count_records(s, RecordKind::abort), 8u) << "nothing was broken off";
  for (int round = 0; round < 2; ++round) {
    roll(s);
    ASSERT_TRUE(s.compact());
  }
  EXPECT_EQ(count_records(s, RecordKind::abort), 1u);
  EXPECT_EQ(count_records(s, RecordKind::pin), 1u);
  const Pairs kept = pairs_of(s);
  EXPECT_EQ(difference(kept, made_anew(s)), "");
}

TEST(Compaction, uploads_open_and_committed_survive_it) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(crypto::part_size + 50);
  const Ulid open = s.begin()->token, committed = s.begin()->token;
  ASSERT_TRUE(s.part(open, 0, sample(100)));
  ASSERT_TRUE(s.part(committed, 1, std::string_view(bytes).substr(crypto::part_size)));
  roll(s);
  ASSERT_TRUE(s.part(committed, 0, std::string_view(bytes).substr(0, crypto::part_size)));
  ASSERT_TRUE(s.put(sample(1 << 20, 5)));
  ASSERT_TRUE(s.put(sample(1 << 20, 6)));
  ASSERT_TRUE(s.remove(address_of(sample(1 << 20, 5))));
  ASSERT_TRUE(s.remove(address_of(sample(1 << 20, 6))));
  roll(s);
  ASSERT_TRUE(s.commit(committed));
  roll(s);
  ASSERT_TRUE(s.compact());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
    EXPECT_EQ((**s.upload(open)).contiguous, 100u);
    EXPECT_TRUE(s.commit(committed)->existed);
    const Pairs kept = pairs_of(s);
    EXPECT_EQ(difference(kept, made_anew(s)), "");
  }
  ASSERT_TRUE(s.commit(open));
}

TEST(Compaction, a_segment_with_rot_stays_and_the_others_go_on) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put(sample(3000, 1)));
  roll(s);
  ASSERT_TRUE(s.put(sample(3000, 2)));
  roll(s);
  const std::string path = segment_path("data/segments", 1);
  ASSERT_TRUE(s.disk().rot(path, s.disk().view().text(path).find(sample(3000, 1)) + 50));
  ASSERT_TRUE(s.compact());
  EXPECT_TRUE(s.disk().view().find(path) != nullptr);
  EXPECT_TRUE(s.disk().view().find(segment_path("data/segments", 2)) == nullptr);
  EXPECT_EQ(code_of(s.read(address_of(sample(3000, 1)))), ErrorCode::integrity);
  EXPECT_TRUE(s.read(address_of(sample(3000, 2))));
}

TEST(Compaction, the_loop_does_it_by_itself) {
  SimulatedStore s;
  s.options.segment_size = 128 << 10;
  ASSERT_TRUE(s.open());
  s.tasks().spawn("compact", s.store->home().compactor().compact_loop(s.tasks().call()));
  for (std::uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(s.put(sample(5000, i + 1)));
    ASSERT_TRUE(s.remove(address_of(sample(5000, i + 1))));
  }
  s.world.run_for(Duration::seconds(10));
  EXPECT_LE(s.store->status().segments, 3u);
}

TEST(Compaction, an_index_made_anew_equals_the_one_that_was_kept) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SimulatedStore s(seed);
    s.options.segment_size = 24 << 10;
    ASSERT_TRUE(s.open());
    Random random(seed);
    std::vector<Ulid> open;
    for (int i = 0; i < 60; ++i) {
      const std::string bytes = sample(200 + random.next() % 8 * 500, random.next() % 6 + 1);
      switch (random.next() % 10) {
        case 0:
        case 1:
        case 2:
          ASSERT_TRUE(s.put(bytes));
          break;
        case 3:
        case 4:
          (void)s.remove(address_of(bytes));
          break;
        case 5:
          (void)s.pin(address_of(bytes), random.next() % 2 == 0);
          break;
        case 6:
          open.push_back(s.begin()->token);
          ASSERT_TRUE(s.part(open.back(), 0, bytes));
          break;
        case 7:
          if (!open.empty()) {
            ASSERT_TRUE(s.abort(open.back()));
            open.pop_back();
          }
          break;
        case 8:
          roll(s);
          break;
        default:
          ASSERT_TRUE(s.compact());
      }
    }
    const Pairs kept = pairs_of(s);
    EXPECT_EQ(difference(kept, made_anew(s)), "") << seed;
  }
}

}  // namespace
}  // namespace cairn::store
