#include "store/log_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "io/sim/crash.h"
#include "runtime/wait.h"
#include "store/kv_setting.h"

namespace cairn::store {
namespace {

namespace sim = io::sim;

class LogKvTest : public KvTest<Simulated<LogKvMaker>> {
 protected:
  sim::SimDisk& disk() { return at.node.disk(); }
  std::uint64_t file_size() { return disk().view().text("map/map").size(); }
};

TEST_F(LogKvTest, K3_a_read_can_be_busy_and_is_found_through_the_pool) {
  close();
  at.maker = LogKvMaker(LogKvOptions{.cold = 1'000'000});
  open();
  ASSERT_EQ(put("k", "1"), ErrorCode::ok);
  EXPECT_EQ(code_of(ports[0]->try_get("k")), ErrorCode::busy);
  EXPECT_EQ(get("k"), "1");
}

TEST_F(LogKvTest, a_full_disk_is_told_by_flush_and_nothing_is_lost_when_there_is_room_again) {
  ASSERT_EQ(put("a", "1"), ErrorCode::ok);
  disk().set_capacity(disk().used() + 10);
  EXPECT_EQ(put("b", std::string(100, 'b')), ErrorCode::ok) << "as into a memtable";
  EXPECT_EQ(get("b"), std::string(100, 'b'));
  EXPECT_EQ(flush(), ErrorCode::storage_full);
  disk().set_capacity(1u << 30);
  EXPECT_EQ(put("c", "3"), ErrorCode::ok);
  EXPECT_EQ(flush(), ErrorCode::ok);
  drop();
  at.cut_power();
  open();
  EXPECT_EQ(all(), (Contents{{"a", "1"}, {"b", std::string(100, 'b')}, {"c", "3"}}));
}

TEST_F(LogKvTest, while_the_disk_refuses_it_holds_no_more_than_its_share) {
  close();
  at.maker = LogKvMaker(LogKvOptions{.unwritten_max = 1000});
  open();
  disk().fail_call(sim::DiskCall::write, 1, sim::DiskFailure::full, true);
  std::size_t taken = 0;
  while (taken < 100 && put(numbered("k", taken), std::string(100, 'v')) == ErrorCode::ok) ++taken;
  EXPECT_GE(taken, 8u);
  EXPECT_LE(taken, 12u);
  EXPECT_EQ(put("refused", "1"), ErrorCode::storage_full);
  EXPECT_EQ(get("refused"), std::nullopt);
  disk().heal();
  EXPECT_EQ(put("taken", "1"), ErrorCode::ok);
  close();
  open();
  EXPECT_EQ(all().size(), taken + 1);
}

TEST_F(LogKvTest, M3_a_failed_sync_fences_it_until_it_is_opened_again) {
  ASSERT_EQ(put("a", "1"), ErrorCode::ok);
  ASSERT_EQ(flush(), ErrorCode::ok);
  ASSERT_EQ(put("b", "1"), ErrorCode::ok);
  disk().fail_call(sim::DiskCall::sync_data, 1);
  EXPECT_EQ(flush(), ErrorCode::io_failed);
  EXPECT_EQ(put("c", "1"), ErrorCode::degraded);
  EXPECT_EQ(flush(), ErrorCode::degraded);
  EXPECT_EQ(get("b"), "1") << "reads go on";
  EXPECT_EQ(get("c"), std::nullopt);
  drop();
  open();
  EXPECT_EQ(get("a"), "1");
  EXPECT_EQ(put("c", "1"), ErrorCode::ok);
}

TEST_F(LogKvTest, M3_a_disk_that_does_not_answer_fences_it) {
  disk().stall(Duration::seconds(3600));
  EXPECT_EQ(put("a", "1"), ErrorCode::timeout);
  EXPECT_EQ(put("b", "1"), ErrorCode::degraded);
  disk().heal();
  drop();
  at.world.run_for(Duration::seconds(4000));
  open();
  EXPECT_EQ(put("b", "1"), ErrorCode::ok);
}

TEST_F(LogKvTest, the_file_stays_in_proportion_to_what_is_alive) {
  close();
  at.maker = LogKvMaker(LogKvOptions{.compact_above = 4000});
  open();
  Contents expected;
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    expected[numbered("k", i % 10)] = numbered("v", i);
    ASSERT_EQ(put(numbered("k", i % 10), numbered("v", i)), ErrorCode::ok);
    largest = std::max(largest, file_size());
  }
  EXPECT_LT(largest, 5000u);
  EXPECT_EQ(all(), expected);
  drop();
  open();
  EXPECT_EQ(all(), expected);
  EXPECT_EQ(disk().view().list("map"), std::vector<std::string>{"map"});
}

TEST_F(LogKvTest, a_file_that_cannot_be_written_anew_is_used_on) {
  close();
  at.maker = LogKvMaker(LogKvOptions{.compact_above = 4000});
  open();
  for (const sim::DiskCall call : {sim::DiskCall::open, sim::DiskCall::unlink}) {
    disk().fail_call(call, 1, sim::DiskFailure::error, true);
    for (std::size_t i = 0; i < 300; ++i) ASSERT_EQ(put("k", numbered("v", i)), ErrorCode::ok);
    EXPECT_GT(file_size(), 5000u);
    EXPECT_EQ(flush(), ErrorCode::ok);
    disk().heal();
    for (std::size_t i = 0; i < 900; ++i) ASSERT_EQ(put("k", numbered("v", i)), ErrorCode::ok);
    EXPECT_LT(file_size(), 5000u);
  }
  drop();
  open();
  EXPECT_EQ(all(), (Contents{{"k", numbered("v", 899)}}));
}

TEST_F(LogKvTest, damage_cuts_the_file_before_it_and_of_the_header_is_integrity) {
  std::vector<Contents> states{Contents{}};
  for (std::size_t i = 0; i < 20; ++i) {
    states.push_back(states.back());
    states.back()[numbered("k", i)] = "v";
    ASSERT_EQ(put(numbered("k", i), "v"), ErrorCode::ok);
  }
  close();
  ASSERT_TRUE(disk().rot("map/map", file_size() / 2));
  open();
  const Contents found = all();
  EXPECT_NE(std::find(states.begin() + 5, states.begin() + 15, found), states.begin() + 15);
  ASSERT_EQ(put("more", "1"), ErrorCode::ok);
  close();
  open();
  EXPECT_EQ(all().size(), found.size() + 1) << "what follows the damage is gone for good";
  close();
  ASSERT_TRUE(disk().rot("map/map", 9));
  EXPECT_EQ(try_open(), ErrorCode::integrity);
  EXPECT_EQ(destroy(), ErrorCode::ok);
  open();
  EXPECT_EQ(all(), Contents{});
}

// --- power cuts

struct Progress {
  std::vector<Contents> states{Contents{}};  // after each batch that was begun
  std::size_t flushed = 0;                   // a crash finds this state or a later one
};
constexpr LogKvOptions small_file{.compact_above = 600, .compact_factor = 2};

KvBatch next_batch(Progress& progress) {
  const std::size_t i = progress.states.size();
  KvBatch batch = batch_of({{"n", std::to_string(i)}, {numbered("k", i % 5), std::string(i * 17 % 90, 'v')}});
  if (i % 4 == 0) batch.remove(numbered("k", (i + 2) % 5));
  progress.states.push_back(progress.states.back());
  apply_to(batch, progress.states.back());
  return batch;
}

// One of perhaps several writers: a batch becomes visible in the step that begins to write it, so that the
// states are in the order of writing.
Task<Result<>> write_some(Call call, Kv* kv, unsigned batches, Progress* progress) {
  for (unsigned i = 1; i <= batches; ++i) {
    KvBatch batch = next_batch(*progress);
    CO_TRY_VOID(co_await kv->write(call, std::move(batch)));
    if (i % 6 != 0) continue;
    const std::size_t here = progress->states.size() - 1;
    CO_TRY_VOID(co_await kv->flush(call));
    progress->flushed = std::max(progress->flushed, here);
  }
  co_return Result<>{};
}

Task<> write_on(Call call, io::Machine machine, unsigned batches, Progress* progress) {
  LogKvMaker maker(small_file);
  auto engine = co_await maker.open(call, machine, "/map");
  if (!engine) co_return;
  auto kv = (*engine)->make_port(machine);
  if (!co_await write_some(call, kv.get(), batches, progress)) co_return;
  (void)co_await (*engine)->close(call, machine);
}

Task<> read_all(Call call, io::Machine machine, std::optional<Contents>* out, bool* opened) {
  LogKvMaker maker(small_file);
  auto engine = co_await maker.open(call, machine, "/map");
  *opened = engine.has_value();
  if (!engine) co_return;
  auto kv = (*engine)->make_port(machine);
  auto pairs = co_await kv->scan(call, "", "\xff", 1000);
  if (!pairs) co_return;
  out->emplace();
  for (KvPair& pair : *pairs) (*out)->emplace(pair.key, pair.value);
}

// The map that a node finds on its disk; none when it cannot be opened.
std::optional<Contents> contents_on(sim::World& world, sim::Node& node) {
  std::optional<Contents> out;
  bool opened = false;
  node.scope().spawn("read", read_all(node.scope().call(), node.machine(), &out, &opened));
  EXPECT_TRUE(world.run_to_rest());
  return out;
}

testing::AssertionResult is_after_some_batch(const std::optional<Contents>& found, const Progress& progress,
                                             std::size_t flushed, std::size_t begun) {
  if (!found) return testing::AssertionFailure() << "cannot be opened";
  for (std::size_t i = flushed; i <= begun; ++i)
    if (*found == progress.states[i]) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "n is " << (found->contains("n") ? found->at("n") : "absent")
                                     << ", flushed " << flushed << ", begun " << begun;
}

// Every disk that a power cut at any moment may leave opens to a state at or after the last flush; and so
// does every one that a second cut may leave of it.
TEST(LogKvCrash, K2_every_crash_state_opens_to_a_prefix_at_or_after_the_last_flush) {
  struct Moment {
    sim::DiskSnapshot disk;
    std::size_t flushed, begun;
  };
  std::vector<Moment> moments;
  Progress progress;
  {
    sim::World world(7);
    sim::Node& node = world.add_node("a");
    node.disk().set_observer([&](const sim::SimDisk& disk) {
      moments.push_back({disk.snapshot(), progress.flushed, progress.states.size() - 1});
    });
    node.scope().spawn("write", write_on(node.scope().call(), node.machine(), 40, &progress));
    ASSERT_TRUE(world.run_to_rest());
    node.disk().set_observer({});
  }
  ASSERT_EQ(progress.states.size(), 41u);
  ASSERT_GT(moments.size(), 50u);
  sim::World world(1);
  sim::Node& node = world.add_node("a");
  std::size_t visited = 0, twice = 0;
  std::set<std::pair<std::uint64_t, std::size_t>> seen;
  sim::CrashOptions few;
  few.exhaustive = 5;
  few.random = 12;
  for (const Moment& moment : moments) {
    const auto good = [&](const sim::CrashState& state) {
      if (!seen.emplace(state.hash, moment.flushed).second) return true;
      node.disk().load(state.image);
      const auto found = contents_on(world, node);
      EXPECT_TRUE(is_after_some_batch(found, progress, moment.flushed, moment.begun));
      ++visited;
      if (visited % 8 == 0) {
        const sim::DiskSnapshot again = node.disk().snapshot();
        sim::crash_states(
            again,
            [&](const sim::CrashState& second) {
              node.disk().load(second.image);
              EXPECT_TRUE(
                  is_after_some_batch(contents_on(world, node), progress, moment.flushed, moment.begun));
              ++twice;
              return !testing::Test::HasFailure();
            },
            few);
      }
      return !testing::Test::HasFailure();
    };
    sim::crash_states(moment.disk, good, few);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(visited, 500u);
  EXPECT_GT(twice, 50u);
}

TEST(LogKvCrash, K2_after_a_power_cut_at_any_time_on_a_failing_disk_it_goes_on_from_a_prefix) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    sim::World world(seed);
    sim::Node& node = world.add_node("a");
    Progress progress;
    node.disk().faults.write_error = seed % 3 == 0 ? 100'000 : 0;
    node.scope().spawn("write", write_on(node.scope().call(), node.machine(), 60, &progress));
    world.run_for(Duration::micros(static_cast<std::int64_t>(world.choices().pick(60'000, "test.crash"))));
    world.crash(node, seed % 4 == 0 ? sim::Crash::process : sim::Crash::power);
    node.disk().faults.write_error = 0;
    world.restart(node);
    const auto found = contents_on(world, node);
    ASSERT_TRUE(is_after_some_batch(found, progress, progress.flushed, progress.states.size() - 1)) << seed;
    Progress more;
    more.states = {*found};
    node.scope().spawn("write", write_on(node.scope().call(), node.machine(), 10, &more));
    ASSERT_TRUE(world.run_to_rest());
    ASSERT_EQ(contents_on(world, node), more.states.back()) << seed;
  }
}

struct Program {
  std::shared_ptr<KvEngine> engine;
  std::array<std::unique_ptr<Kv>, 2> ports;
};
Task<> start(Call call, io::Machine here, io::Machine there, Program* program, bool* started) {
  LogKvMaker maker(small_file);
  auto opened = co_await maker.open(call, here, "/map");
  if (!opened) co_return;
  program->engine = *opened;
  program->ports[0] = program->engine->make_port(here);
  program->ports[1] = program->engine->make_port(there);
  *started = true;
}
Task<> write_and_flush(Call call, Kv* kv, Progress* progress, unsigned* finished) {
  if (co_await write_some(call, kv, 30, progress)) ++*finished;
}
// Never waits for the file, so that batches come at every moment of the other's work on it.
Task<> write_slowly(Call call, Kv* kv, Progress* progress, unsigned* finished) {
  for (unsigned i = 0; i < 60; ++i) {
    KvBatch batch = next_batch(*progress);
    if (!co_await kv->write(call, std::move(batch))) co_return;
    const auto pause = static_cast<std::int64_t>(current_shard()->random().below(1000));
    if (!co_await sleep_for(call, Duration::micros(pause))) co_return;
  }
  ++*finished;
}

TEST(LogKvCrash, M1_writers_on_two_shards_leave_a_prefix_of_one_order) {
  unsigned whole_runs = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    sim::World world(seed);
    sim::Node& node = world.add_node("a", 2);
    Program& program = node.make<Program>();
    Progress progress;
    bool started = false;
    unsigned finished = 0;
    node.scope().spawn("start",
                       start(node.scope().call(), node.machine(0), node.machine(1), &program, &started));
    ASSERT_TRUE(world.run_until([&] { return started; }));
    for (unsigned i = 0; i < 4; ++i) {
      const Call call = node.scope(i % 2).call();
      Kv* const kv = program.ports[i % 2].get();
      node.scope(i % 2).spawn("write", i < 2 ? write_and_flush(call, kv, &progress, &finished)
                                             : write_slowly(call, kv, &progress, &finished));
    }
    if (seed % 2 == 0)
      ASSERT_TRUE(world.run_until([&] { return finished == 4; }));
    else
      world.run_for(Duration::micros(static_cast<std::int64_t>(world.choices().pick(60'000, "test.crash"))));
    if (finished == 4) {
      ++whole_runs;
      ASSERT_EQ(progress.states.size(), 181u);
    }
    // A process that dies loses nothing that reached the kernel.
    const bool killed = seed % 4 == 0;
    world.crash(node, killed ? sim::Crash::process : sim::Crash::power);
    world.restart(node);
    const auto found = contents_on(world, node);
    ASSERT_TRUE(
        is_after_some_batch(found, progress, killed ? 180 : progress.flushed, progress.states.size() - 1))
        << seed;
  }
  EXPECT_GE(whole_runs, 100u);
}

}  // namespace
}  // namespace cairn::store
