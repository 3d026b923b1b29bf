// Crashes that need more than the short words of the crash suite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "store/simulated_store.h"

namespace cairn::store {
namespace {

using io::sim::CrashState;
using io::sim::DiskSnapshot;
using io::sim::SimDisk;

struct Recorded : SimulatedStore {
  using SimulatedStore::SimulatedStore;
  void record() {
    disk().set_observer([this](const SimDisk& now) { moments.push_back(now.snapshot()); });
  }
  void end() {
    disk().set_observer({});
    stop();
  }
  std::vector<DiskSnapshot> moments;
};

// Opens every state of every moment and shows it to `check`; how many there were.
template <class Check>
std::size_t for_each_crash(const Recorded& recorded, const StoreOptions& options,
                           const std::vector<Address>& addresses, Check check, std::size_t exhaustive = 3,
                           std::size_t random = 4) {
  SimulatedStore s(7);
  s.options = options;
  io::sim::CrashOptions states;
  states.exhaustive = exhaustive;
  states.random = random;
  std::size_t count = 0;
  for (const DiskSnapshot& moment : recorded.moments)
    io::sim::crash_states(
        moment,
        [&](const CrashState& state) {
          ++count;
          s.stop();
          s.forget_cached(addresses);
          s.disk().load(state.image);
          EXPECT_TRUE(s.open());
          if (testing::Test::HasFailure()) return false;
          check(s);
          return !testing::Test::HasFailure();
        },
        states);
  return count;
}

TEST(ObjectCrash, an_upload_of_several_parts_is_whole_or_not_there) {
  Recorded r;
  r.options.segment_size = 8 << 20;
  ASSERT_TRUE(r.open());
  const std::string bytes = sample(2 * crypto::part_size + 100'000);
  const Ulid token = r.begin(bytes.size())->token;
  ASSERT_TRUE(r.part(token, 1, std::string_view(bytes).substr(crypto::part_size, crypto::part_size)));
  r.record();
  ASSERT_TRUE(r.part(token, 2, std::string_view(bytes).substr(2 * crypto::part_size)));
  ASSERT_TRUE(r.part(token, 0, std::string_view(bytes).substr(0, crypto::part_size)));
  const std::size_t before = r.moments.size();
  ASSERT_TRUE(r.commit(token));
  ASSERT_GT(r.moments.size(), before);
  r.end();
  std::size_t whole = 0, absent = 0;
  for_each_crash(
      r, r.options, {address_of(bytes)},
      [&](SimulatedStore& s) {
        const auto read = s.read(address_of(bytes));
        if (read) {
          ++whole;
          EXPECT_TRUE(*read == bytes);
          return;
        }
        ++absent;
        EXPECT_EQ(read.error().code, ErrorCode::not_found);
        const auto state = s.upload(token);
        ASSERT_TRUE(state && *state);
        // It goes on from what is there.
        for (const auto& [first, last] : (*state)->missing)
          for (std::uint64_t at = first / crypto::part_size; at * crypto::part_size <= last; ++at)
            EXPECT_TRUE(s.part(token, static_cast<std::uint32_t>(at),
                               std::string_view(bytes).substr(at * crypto::part_size, crypto::part_size)));
        EXPECT_TRUE(s.commit(token, address_of(bytes)));
        EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
      },
      0, 0);
  EXPECT_GT(whole, 0u);
  EXPECT_GT(absent, 0u);
}

TEST(ObjectCrash, healing_a_pinned_object_keeps_it_pinned_whatever_is_left) {
  Recorded r;
  ASSERT_TRUE(r.open());
  const std::string bytes = sample(3000);
  ASSERT_TRUE(r.put(bytes));
  ASSERT_TRUE(r.pin(address_of(bytes)));
  const std::string path = segment_path("data/segments", 1);
  ASSERT_TRUE(r.disk().rot(path, r.disk().view().text(path).find(bytes) + 9));
  ASSERT_EQ(code_of(r.read(address_of(bytes))), ErrorCode::integrity);
  r.record();
  ASSERT_TRUE(r.put(bytes));
  ASSERT_TRUE(r.run(r.store->home().roll(r.call())));
  ASSERT_TRUE(r.compact());
  r.end();
  std::size_t healed = 0;
  for_each_crash(r, r.options, {address_of(bytes)}, [&](SimulatedStore& s) {
    for (int rebuilt = 0; rebuilt < 2; ++rebuilt) {
      const auto read = s.read(address_of(bytes));
      EXPECT_TRUE(read ? *read == bytes : read.error().code == ErrorCode::integrity);
      healed += read ? 1u : 0u;
      ASSERT_EQ(s.list().size(), 1u);
      EXPECT_TRUE(s.list()[0].pinned);
      s.stop();
      s.forget_cached({address_of(bytes)});
      (void)s.run(s.machine().disk.unlink(s.call(), "data/index/map"));
      ASSERT_TRUE(s.open());
    }
  });
  EXPECT_GT(healed, 0u);
}

TEST(ObjectCrash, an_index_that_is_being_made_anew_is_complete_in_the_end) {
  Recorded r;
  r.options.segment_size = 64 << 10;
  ASSERT_TRUE(r.open());
  // More than one batch of it, with everything that needs a last step: parts that belong to nothing, and a
  // pin whose object was moved behind it.
  const Address pinned = r.put(sample(60, 9999))->address;
  const Ulid orphan = r.begin()->token;
  ASSERT_TRUE(r.part(orphan, 0, sample(50)));
  ASSERT_TRUE(r.put(sample(20'000, 1)));
  ASSERT_TRUE(r.remove(address_of(sample(20'000, 1))));
  ASSERT_TRUE(r.run(r.store->home().roll(r.call())));
  ASSERT_TRUE(r.pin(pinned));
  for (std::uint64_t i = 0; i < 700; ++i) ASSERT_TRUE(r.put(sample(40, i + 100)));
  ASSERT_TRUE(r.compact());
  ASSERT_TRUE(r.abort(orphan));
  std::map<std::string, std::string> kept;
  for (const KvPair& pair : r.index()) kept[pair.key] = pair.value;
  r.stop();
  ASSERT_TRUE(r.run(r.machine().disk.unlink(r.call(), "data/index/map")));
  r.record();
  ASSERT_TRUE(r.open());
  r.end();
  const std::size_t count = for_each_crash(
      r, r.options, {},
      [&](SimulatedStore& s) {
        std::map<std::string, std::string> now;
        for (const KvPair& pair : s.index()) now[pair.key] = pair.value;
        EXPECT_TRUE(now == kept);
      },
      1, 2);
  EXPECT_GT(count, 5u);
}

TEST(ObjectCrash, a_segment_that_could_not_be_begun_does_not_make_a_torn_write_look_like_rot) {
  Recorded r;
  r.options.segment_size = 16 << 10;
  ASSERT_TRUE(r.open());
  ASSERT_TRUE(r.put(sample(6000, 1)));
  r.disk().fail_call(io::sim::DiskCall::write, 1, io::sim::DiskFailure::full);
  ASSERT_EQ(code_of(r.put(sample(7000, 2))), ErrorCode::storage_full);
  r.disk().heal();
  r.record();
  ASSERT_TRUE(r.put(sample(600, 3)));
  r.end();
  for_each_crash(r, r.options, {address_of(sample(6000, 1)), address_of(sample(600, 3))},
                 [&](SimulatedStore& s) {
                   EXPECT_EQ(s.store->status().damage, 0u);
                   EXPECT_TRUE(s.read(address_of(sample(6000, 1))));
                   EXPECT_NE(code_of(s.read(address_of(sample(600, 3)))), ErrorCode::integrity);
                 });
}

TEST(ObjectCrash, changes_of_several_shards_survive_power_loss_when_they_were_answered) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SimulatedStore s(seed, 3);
    s.options.segment_size = 32 << 10;
    ASSERT_TRUE(s.open());
    std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> puts;
    for (std::uint64_t i = 0; i < 40; ++i)
      puts.push_back(s.start(s.put_task(sample(900, i + 1), static_cast<unsigned>(i % 3)),
                             static_cast<unsigned>(i % 3)));
    // The power goes in the middle: what is on the disk then is what counts.
    std::size_t answered = 0;
    ASSERT_TRUE(s.world.run_until([&] {
      answered = static_cast<std::size_t>(
          std::count_if(puts.begin(), puts.end(), [](auto& one) { return one->has_value(); }));
      return answered >= seed % 40;
    }));
    const DiskSnapshot moment = s.disk().snapshot();
    std::vector<Address> promised, maybe;
    for (std::uint64_t i = 0; i < 40; ++i)
      (puts[i]->has_value() ? promised : maybe).push_back(address_of(sample(900, i + 1)));
    ASSERT_TRUE(s.world.run_until(
        [&] { return std::all_of(puts.begin(), puts.end(), [](auto& one) { return one->has_value(); }); }));
    Recorded r(seed);
    r.moments.push_back(moment);
    std::vector<Address> all = promised;
    all.insert(all.end(), maybe.begin(), maybe.end());
    for_each_crash(r, s.options, all, [&](SimulatedStore& left) {
      for (const Address& address : promised) EXPECT_TRUE(left.read(address));
      for (const Address& address : maybe) {
        const auto read = left.read(address);
        EXPECT_TRUE(read || read.error().code == ErrorCode::not_found);
      }
    });
  }
}

}  // namespace
}  // namespace cairn::store
