#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "store/simulated_store.h"

namespace cairn::store {
namespace {

using io::sim::DiskCall;
using io::sim::DiskFailure;

TEST(FullDisk, puts_are_refused_while_reads_and_deletes_go_on_until_there_is_room) {
  SimulatedStore s;
  s.options.segment_size = 512 << 10;
  s.options.reserve = 256 << 10;
  s.disk().set_capacity(4 << 20);
  ASSERT_TRUE(s.open());
  std::vector<Address> there;
  Result<Outcome> last = fail(ErrorCode::internal, "none yet");
  for (std::uint64_t i = 0; i < 2000; ++i) {
    last = s.put(sample(20'000, i + 1));
    if (!last) break;
    there.push_back(last->address);
  }
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, ErrorCode::storage_full);
  EXPECT_TRUE(s.store->status().full);
  EXPECT_FALSE(s.store->writable());
  EXPECT_FALSE(s.store->status().fenced);
  EXPECT_GT(there.size(), 100u);
  for (std::size_t i = 0; i < there.size(); i += 10) EXPECT_TRUE(s.read(there[i]));
  const auto existing = s.put(sample(20'000, 1));
  EXPECT_TRUE(existing && existing->existed);
  // Deletes go on, and free space.
  for (std::size_t i = 0; i < there.size(); ++i)
    if (i % 8 != 0) ASSERT_TRUE(s.remove(there[i])) << i;
  for (int round = 0; round < 100; ++round) {
    const auto worked = s.run(s.store->home().compactor().compact_once(s.call()));
    ASSERT_TRUE(worked) << worked.error().context;
    if (!*worked) break;
  }
  s.world.run_for(Duration::seconds(5));
  const auto again = s.put("there is room");
  EXPECT_TRUE(again) << again.error().context;
  EXPECT_FALSE(s.store->status().full);
  for (std::size_t i = 0; i < there.size(); ++i)
    EXPECT_EQ(code_of(s.read(there[i])), i % 8 == 0 ? ErrorCode::ok : ErrorCode::not_found) << i;
}

// What compaction copies before it can free anything is never what deletes need.
TEST(FullDisk, deletes_go_on_and_room_comes_back_wherever_the_deleted_bytes_are) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedStore s(seed);
    Random random(seed);
    s.options.segment_size = 512 << 10;
    s.options.reserve = 64 << 10;
    s.disk().set_capacity(4 << 20);
    ASSERT_TRUE(s.open());
    std::vector<std::string> there;
    for (;; there.push_back(sample(1 + random.below(40'000), there.size()))) {
      if (!there.empty() && !s.put(there.back())) break;
    }
    there.pop_back();
    ASSERT_TRUE(s.store->status().full);
    ASSERT_GT(there.size(), 50u);
    const std::size_t all = there.size();
    while (there.size() > all / 2) {
      const std::size_t at = random.below(there.size());
      ASSERT_TRUE(s.remove(address_of(there[at])))
          << "seed " << seed << ", of " << all << ": " << there.size();
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(at));
      const auto worked = s.run(s.store->home().compactor().compact_once(s.call()));
      ASSERT_TRUE(worked) << worked.error().context;
    }
    s.world.run_for(Duration::seconds(5));
    EXPECT_FALSE(s.store->status().full) << seed;
    EXPECT_TRUE(s.put(sample(40'000, 1000))) << seed;
    for (const std::string& bytes : there)
      EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
  }
}

TEST(FullDisk, compaction_does_not_wait_for_its_time) {
  SimulatedStore s;
  s.options.segment_size = 512 << 10;
  s.options.reserve = 64 << 10;
  s.disk().set_capacity(4 << 20);
  ASSERT_TRUE(s.open());
  std::vector<Address> there;
  while (const auto put = s.put(sample(20'000, there.size() + 1))) there.push_back(put->address);
  s.tasks().spawn("compact", s.store->home().compactor().compact_loop(s.tasks().call()));
  s.world.run_for(Duration::millis(10));  // it found nothing, and would look again in a second
  const Instant before = s.world.now();
  for (std::size_t i = 0; i < there.size(); i += 2) ASSERT_TRUE(s.remove(there[i]));
  ASSERT_TRUE(s.world.run_until([&] { return !s.store->status().full; }));
  EXPECT_LT(s.world.now() - before, Duration::millis(500)) << "of the simulator's clock";
}

TEST(FullDisk, what_is_deleted_from_the_segment_being_written_makes_room_too) {
  SimulatedStore s;
  s.options.segment_size = 256 << 10;
  s.options.reserve = 64 << 10;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(s.put(sample(20'000, i + 1)));
  s.disk().set_capacity(s.disk().used() + (200 << 10));  // others took the rest
  for (std::uint64_t i = 0; i < 10; ++i) (void)s.put(sample(20'000, i + 20));
  ASSERT_TRUE(s.store->status().full);
  ASSERT_EQ(s.store->status().segments, 1u);
  for (const Listed& one : s.list()) ASSERT_TRUE(s.remove(one.address));
  ASSERT_TRUE(s.compact());
  EXPECT_TRUE(s.put("there is room"));
  EXPECT_FALSE(s.store->status().full);
}

TEST(FullDisk, nothing_but_the_reserve_is_left_and_what_is_deleted_makes_room_again) {
  SimulatedStore s;
  s.options.segment_size = 256 << 10;
  s.options.reserve = 128 << 10;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(s.put(sample(20'000, i + 1)));
  s.disk().set_capacity(s.disk().used());  // others took all of it
  EXPECT_EQ(code_of(s.put(sample(20'000, 100))), ErrorCode::storage_full);
  for (std::uint64_t i = 1; i < 60; i += 8) ASSERT_TRUE(s.remove(address_of(sample(20'000, i + 1)))) << i;
  EXPECT_EQ(s.compact(), Result<unsigned>(0))
      << "what lives in a segment does not go into half of the reserve";
  for (std::uint64_t i = 0; i < 60; ++i)
    if (i % 8 > 1) ASSERT_TRUE(s.remove(address_of(sample(20'000, i + 1)))) << i;
  ASSERT_TRUE(s.compact());
  s.world.run_for(Duration::seconds(2));
  EXPECT_TRUE(s.put(sample(20'000, 100)));
  EXPECT_FALSE(s.store->status().full);
  for (std::uint64_t i = 0; i < 60; i += 8) EXPECT_TRUE(s.read(address_of(sample(20'000, i + 1))));
}

// The index has no room for what it was given: nothing more is appended, and nothing is fenced.
TEST(FullDisk, what_the_index_cannot_take_in_is_not_appended) {
  SimulatedStore s(1, 1, LogKvOptions{.unwritten_max = 2000});
  ASSERT_TRUE(s.open());
  const Address kept = s.put(sample(3000))->address;
  s.disk().set_capacity(s.disk().used() + 4000);  // there are zeros behind the log, and none behind the index
  std::size_t put = 0;
  Result<Outcome> last = s.put(sample(20, 1));
  for (; last && put < 1000; ++put) last = s.put(sample(20, put + 2));
  EXPECT_EQ(code_of(last), ErrorCode::storage_full);
  EXPECT_FALSE(s.store->status().fenced);
  EXPECT_TRUE(s.read(kept));
  s.disk().set_capacity(std::uint64_t{1} << 30);
  ASSERT_TRUE(s.run(s.store->home().compactor().compact_once(s.call())));
  const auto again = s.put(sample(20, 5000));
  EXPECT_TRUE(again) << again.error().context;
  ASSERT_TRUE(s.open());
  for (std::size_t i = 1; i <= put; ++i) EXPECT_TRUE(s.read(address_of(sample(20, i)))) << i;
  EXPECT_FALSE(s.read(address_of(sample(20, put + 1)))) << "it was refused";
}

// Copying them would free nothing, however dead the segment looks.
TEST(FullDisk, a_segment_of_removals_is_not_copied_again_and_again) {
  for (const bool reopened : {false, true}) {
    SimulatedStore s;
    s.options.segment_size = 64 << 10;
    ASSERT_TRUE(s.open());
    std::vector<std::string> there;
    for (std::uint64_t i = 0; i < 2000; ++i) there.push_back(sample(400, i + 1));
    for (const std::string& bytes : there) ASSERT_TRUE(s.put(bytes));
    ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
    // A third of every segment: too little to be compacted.
    for (std::size_t i = 0; i < there.size(); i += 3) ASSERT_TRUE(s.remove(address_of(there[i])));
    ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
    if (reopened) ASSERT_TRUE(s.open());
    const std::uint64_t before = s.store->status().log_bytes;
    s.tasks().spawn("compact", s.store->home().compactor().compact_loop(s.tasks().call()));
    s.world.run_for(Duration::seconds(10));
    EXPECT_EQ(s.store->status().log_bytes, before) << reopened;
  }
}

// OH-4: with no room to write the index down a segment goes all the same, and a crash costs only the index.
TEST(FullDisk, a_dead_segment_goes_without_room_for_the_index) {
  SimulatedStore s;
  s.options.segment_size = 256 << 10;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(s.put(sample(20'000, i + 1)));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  const Address kept = s.put(sample(20'000, 100))->address;
  for (std::uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(s.remove(address_of(sample(20'000, i + 1))));
  ASSERT_EQ(s.store->status().segments, 2u);
  // Others took the rest: there is room for the removal in the log, and none for what it makes of the index.
  s.disk().set_capacity(s.disk().used() + 150);
  ASSERT_TRUE(s.remove(address_of(sample(20'000, 10))));
  const auto worked = s.run(s.store->home().compactor().compact_once(s.call()));
  ASSERT_TRUE(worked) << worked.error().context;
  EXPECT_TRUE(*worked);
  EXPECT_EQ(s.store->status().segments, 1u);
  s.kill();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.read(kept), Result<std::string>(sample(20'000, 100)));
  for (std::uint64_t i = 0; i < 10; ++i)
    EXPECT_EQ(code_of(s.read(address_of(sample(20'000, i + 1)))), ErrorCode::not_found);
}

TEST(FullDisk, a_delete_does_not_fail_together_with_the_put_beside_it) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SimulatedStore s(seed);
    s.options.segment_size = 512 << 10;  // zeros written ahead are room too, here for less than the put
    s.options.reserve = 64 << 10;
    ASSERT_TRUE(s.open());
    const Address old = s.put("old")->address;
    s.disk().set_capacity(s.disk().used() + 3000);
    std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> changes;
    changes.push_back(s.start(s.put_task(sample(100'000))));
    // As a port sends it, which would come again.
    auto removal = std::make_unique<Mutation>(Mutation::Kind::remove);
    removal->address = old;
    changes.push_back(s.start(s.store->home().committer().submit(s.call(), std::move(removal))));
    ASSERT_TRUE(s.world.run_until([&] {
      return std::all_of(changes.begin(), changes.end(), [](auto& one) { return one->has_value(); });
    }));
    EXPECT_EQ(code_of(**changes[0]), ErrorCode::storage_full);
    EXPECT_EQ(code_of(**changes[1]), ErrorCode::ok) << seed;
    EXPECT_EQ(code_of(s.read(old)), ErrorCode::not_found);
  }
}

TEST(FailingDisk, a_segment_that_cannot_be_begun_refuses_the_change_and_fences_nothing) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put(sample(3000)));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  ASSERT_TRUE(s.put(sample(3000, 2)));
  s.disk().fail_call(DiskCall::open, 1);
  EXPECT_FALSE(s.run(s.store->home().roll(s.call())));
  s.disk().fail_call(DiskCall::open, 1);
  EXPECT_EQ(code_of(s.put(sample(3000, 3))), ErrorCode::degraded);
  EXPECT_FALSE(s.store->status().fenced);
  EXPECT_TRUE(s.put(sample(3000, 3)));
}

TEST(FailingDisk, a_sync_error_fences_writes_and_reads_go_on) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(70'000);
  ASSERT_TRUE(s.put(bytes));
  s.disk().fail_call(DiskCall::sync_data, 1);
  s.disk().fail_call(DiskCall::write, 1);
  EXPECT_EQ(code_of(s.put("lost")), ErrorCode::degraded);
  EXPECT_TRUE(s.store->status().fenced);
  EXPECT_FALSE(s.store->writable());
  s.disk().heal();
  // The error is not forgotten because the next sync succeeds.
  EXPECT_EQ(code_of(s.put("more")), ErrorCode::degraded);
  EXPECT_EQ(code_of(s.remove(address_of(bytes))), ErrorCode::degraded);
  s.cache().erase(address_of(bytes));
  EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
  EXPECT_EQ(code_of(s.read(address_of("lost"))), ErrorCode::not_found);
  s.stop();
  ASSERT_TRUE(s.open());
  EXPECT_FALSE(s.store->status().fenced);
  EXPECT_TRUE(s.read(address_of(bytes)));
  EXPECT_TRUE(s.put("more"));
}

TEST(FailingDisk, an_index_that_cannot_be_written_fences_and_the_next_start_catches_up) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put("first"));
  // Neither the index nor its memory of what waits takes any more.
  s.disk().fail_call(DiskCall::write, 2, DiskFailure::error, true);
  std::size_t stored = 0;
  Result<Outcome> last = Outcome{};
  for (std::uint64_t i = 0; i < 20 && last; ++i) {
    last = s.put(sample(500, i + 1));
    stored += last ? 1u : 0u;
  }
  EXPECT_EQ(code_of(last), ErrorCode::degraded);
  s.disk().heal();
  s.stop();
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < stored; ++i) EXPECT_TRUE(s.read(address_of(sample(500, i + 1))));
}

TEST(FailingDisk, a_read_error_is_told_and_is_no_quarantine) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(70'000);
  ASSERT_TRUE(s.put(bytes));
  s.disk().faults.cold = 1'000'000;
  s.disk().fail_call(DiskCall::read, 1, DiskFailure::error, true);
  EXPECT_EQ(code_of(s.read(address_of(bytes))), ErrorCode::io_failed);
  s.disk().heal();
  EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
  EXPECT_EQ(s.store->status().quarantined, 0u);
}

TEST(FailingDisk, compaction_goes_around_a_segment_that_cannot_be_read) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  // The one with the larger share of dead bytes is first.
  ASSERT_TRUE(s.put(sample(500, 1)));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  ASSERT_TRUE(s.put(sample(3000, 2)));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  s.disk().fail_call(DiskCall::read, 1, DiskFailure::error, true);
  (void)s.run(s.store->home().compactor().compact_once(s.call()));
  s.disk().heal();
  EXPECT_TRUE(s.compact());
  EXPECT_NE(s.disk().view().find(segment_path("data/segments", 1)), nullptr);
  EXPECT_EQ(s.disk().view().find(segment_path("data/segments", 2)), nullptr);
  EXPECT_TRUE(s.read(address_of(sample(500, 1))));
  EXPECT_TRUE(s.read(address_of(sample(3000, 2))));
}

struct Lost {
  const char* name;
  void (*how)(SimulatedStore&);
};
class Index : public testing::TestWithParam<Lost> {};

TEST_P(Index, comes_back_as_it_was) {
  SimulatedStore s;
  s.options.segment_size = 24 << 10;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(s.put(sample(900, i + 1)));
  for (std::uint64_t i = 0; i < 30; i += 3) ASSERT_TRUE(s.remove(address_of(sample(900, i + 1))));
  ASSERT_TRUE(s.pin(address_of(sample(900, 5))));
  const Ulid open = s.begin()->token;
  ASSERT_TRUE(s.part(open, 0, "bytes"));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  ASSERT_TRUE(s.compact());
  ASSERT_TRUE(s.put("last"));
  const auto kept = without_point(s.index());
  ASSERT_TRUE(s.close());
  GetParam().how(s);
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_TRUE(are_equal(without_point(s.index()), kept));
  for (std::uint64_t i = 0; i < 30; ++i)
    EXPECT_EQ(code_of(s.read(address_of(sample(900, i + 1)))),
              i % 3 == 0 ? ErrorCode::not_found : ErrorCode::ok);
  EXPECT_EQ(code_of(s.remove(address_of(sample(900, 5)))), ErrorCode::pinned);
  EXPECT_EQ((**s.upload(open)).contiguous, 5u);
  EXPECT_EQ(*s.read(address_of("last")), "last");
  EXPECT_TRUE(s.put("more"));
}

INSTANTIATE_TEST_SUITE_P(
    ObjectStore, Index,
    testing::Values(
        Lost{"untouched", [](SimulatedStore&) {}},
        Lost{"deleted",
             [](SimulatedStore& s) { CHECK(s.run(s.machine().disk.unlink(s.call(), "data/index/map"))); }},
        Lost{"header_damaged", [](SimulatedStore& s) { CHECK(s.disk().rot("data/index/map", 3)); }},
        Lost{"behind_by_rot",
             [](SimulatedStore& s) {
               CHECK(s.disk().rot("data/index/map", s.disk().view().text("data/index/map").size() - 40));
             }},
        Lost{"far_behind_by_rot", [](SimulatedStore& s) { CHECK(s.disk().rot("data/index/map", 60)); }}),
    [](const auto& one) { return one.param.name; });

// A store whose log lost what its index still has.
struct Shortened : SimulatedStore {
  Shortened(bool fsync, bool whole_segment) {
    options.fsync = fsync;
    EXPECT_TRUE(open());
    EXPECT_TRUE(put(sample(900, 1)));
    EXPECT_TRUE(run(store->home().roll(call())));
    EXPECT_TRUE(put(sample(900, 2)));
    upload = begin()->token;
    stop();
    const io::sim::Image before = disk().view();
    EXPECT_TRUE(open());
    EXPECT_TRUE(part(upload, 0, sample(700, 9)));
    EXPECT_TRUE(put(sample(900, 3)));
    EXPECT_TRUE(pin(address_of(sample(900, 3))));
    EXPECT_TRUE(put(sample(900, 4)));
    EXPECT_TRUE(close());
    io::sim::Image mixed = disk().view();
    const std::string path = segment_path("data/segments", 2);
    if (whole_segment)
      mixed.names.erase(path);
    else
      mixed.put(path, before.text(path), 1000);
    disk().load(mixed);
    make_cache();
  }
  ErrorCode reading(std::uint64_t seed) { return code_of(read(address_of(sample(900, seed)))); }
  Ulid upload;
};

TEST(IndexAhead, proves_a_loss_which_is_told_until_it_is_put_again_deleted_or_accepted) {
  for (const bool whole_segment : {false, true}) {
    Shortened s(true, whole_segment);
    for (int life = 0; life < 2; ++life) {
      ASSERT_TRUE(s.open());
      EXPECT_EQ(s.reading(1), ErrorCode::ok);
      EXPECT_EQ(s.reading(2), whole_segment ? ErrorCode::integrity : ErrorCode::ok);
      EXPECT_EQ(s.reading(3), ErrorCode::integrity);
      EXPECT_EQ(s.reading(4), ErrorCode::integrity);
      EXPECT_EQ(s.list().size(), 4u);
      EXPECT_FALSE(s.store->status().whole());
      EXPECT_TRUE(s.store->writable());
      EXPECT_EQ(s.store->status().quarantined, whole_segment ? 3u : 2u);
      if (life == 0) s.stop();
    }
    // A part that is lost is missing from its upload.
    EXPECT_EQ(code_of(s.commit(s.upload)), ErrorCode::upload_gap);
    const auto healed = s.put(sample(900, 4));
    ASSERT_TRUE(healed);
    EXPECT_FALSE(healed->existed);
    EXPECT_EQ(s.reading(4), ErrorCode::ok);
    EXPECT_FALSE(s.store->status().whole());
    ASSERT_TRUE(s.run(s.store->home().sweeper().accept_losses_once(s.call())));
    EXPECT_TRUE(s.store->status().whole());
    EXPECT_EQ(s.reading(3), ErrorCode::not_found);
    EXPECT_EQ(s.list().size(), whole_segment ? 2u : 3u);
    s.stop();
    ASSERT_TRUE(s.open());
    EXPECT_TRUE(s.store->status().whole());
    EXPECT_EQ(s.reading(4), ErrorCode::ok);
  }
}

TEST(IndexAhead, what_it_proves_is_not_forgotten_when_the_start_is_cut_short) {
  Shortened s(true, false);
  std::vector<io::sim::DiskSnapshot> moments;
  s.disk().set_observer([&](const io::sim::SimDisk& disk) { moments.push_back(disk.snapshot()); });
  ASSERT_TRUE(s.open());
  s.disk().set_observer({});
  s.stop();
  ASSERT_GT(moments.size(), 3u);
  for (const io::sim::DiskSnapshot& moment : moments)
    io::sim::crash_states(moment, [&](const io::sim::CrashState& state) {
      s.disk().load(state.image);
      s.make_cache();
      EXPECT_TRUE(s.open());
      EXPECT_EQ(s.reading(2), ErrorCode::ok);
      EXPECT_EQ(s.reading(3), ErrorCode::integrity);
      EXPECT_EQ(s.reading(4), ErrorCode::integrity);
      EXPECT_FALSE(s.store->status().whole());
      s.stop();
      return !testing::Test::HasFailure();
    });
}

TEST(IndexAhead, without_sync_of_the_log_is_made_anew) {
  Shortened s(false, false);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.reading(1), ErrorCode::ok);
  EXPECT_EQ(s.reading(2), ErrorCode::ok);
  EXPECT_EQ(s.reading(3), ErrorCode::not_found);
  EXPECT_EQ(s.list().size(), 2u);
  EXPECT_TRUE(s.store->status().whole());
}

// The index of one store, the log of another that had the same beginning, or none in common.
TEST(IndexForeign, of_a_fork_or_of_another_store_is_made_anew) {
  for (const bool fork : {false, true})
    for (const std::uint64_t more : {1u, 5u, 9u}) {  // objects of the one whose index it is
      SimulatedStore s, other(2);
      for (SimulatedStore* one : {&s, &other}) {
        ASSERT_TRUE(one->open());
        for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(one->put(sample(900, i)));
        ASSERT_TRUE(one->close());
      }
      if (fork) other.disk().load(s.disk().view());
      ASSERT_TRUE(s.open());
      for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(s.put(sample(900, 100 + i)));
      ASSERT_TRUE(s.close());
      ASSERT_TRUE(other.open());
      for (std::uint64_t i = 0; i < more; ++i) ASSERT_TRUE(other.put(sample(900, 200 + i)));
      ASSERT_TRUE(other.close());
      s.disk().put("data/index/map", other.disk().view().text("data/index/map"));
      s.make_cache();
      ASSERT_TRUE(s.open());
      for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_TRUE(s.read(address_of(sample(900, i))));
      for (std::uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(s.read(address_of(sample(900, 100 + i))));
      EXPECT_EQ(s.list().size(), 10u);
      EXPECT_TRUE(s.store->status().whole());
    }
}

TEST(IndexBehind, of_a_compacted_log_is_made_anew_and_lists_nothing_that_was_deleted) {
  SimulatedStore s;
  s.options.segment_size = 24 << 10;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(s.put(sample(900, i)));
  ASSERT_TRUE(s.close());
  const std::string old = s.disk().view().text("data/index/map");
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 1; i <= 19; ++i) ASSERT_TRUE(s.remove(address_of(sample(900, i))));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  ASSERT_TRUE(s.compact());
  ASSERT_TRUE(s.close());
  s.disk().put("data/index/map", old);
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.list().size(), 1u);
  EXPECT_TRUE(s.read(address_of(sample(900, 20))));
  EXPECT_TRUE(s.store->status().whole());
}

TEST(LostSegment, is_told_its_objects_are_named_and_it_can_be_accepted) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(s.put(sample(900, i)));
    ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  }
  ASSERT_TRUE(s.close());
  const std::string path = segment_path("data/segments", 2), bytes = s.disk().view().text(path);
  ASSERT_TRUE(s.run(s.machine().disk.unlink(s.call(), path)));
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.store->status().lost_segments, 1u);
  EXPECT_EQ(s.store->status().quarantined, 1u);
  EXPECT_EQ(code_of(s.read(address_of(sample(900, 2)))), ErrorCode::integrity);
  ASSERT_TRUE(s.run(s.store->home().sweeper().accept_losses_once(s.call())));
  EXPECT_EQ(s.store->status().lost_segments, 0u);
  EXPECT_EQ(code_of(s.read(address_of(sample(900, 2)))), ErrorCode::not_found);
  s.stop();
  ASSERT_TRUE(s.open());
  EXPECT_TRUE(s.store->status().whole());
}

TEST(SlowDisk, an_answer_that_comes_too_late_changes_nothing_of_what_is_stored) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  s.disk().stall(Duration::seconds(20));
  const std::string bytes = sample(100);
  EXPECT_TRUE(s.put(bytes));
  EXPECT_TRUE(s.read(address_of(bytes)));
  s.disk().stall(Duration::seconds(120));
  EXPECT_EQ(code_of(s.put("beyond the log's patience")), ErrorCode::degraded);
  s.disk().heal();
  s.world.run_for(Duration::seconds(200));
  s.stop();
  ASSERT_TRUE(s.open());
  EXPECT_TRUE(s.read(address_of(bytes)));
  EXPECT_TRUE(s.put("more"));
}

}  // namespace
}  // namespace cairn::store
