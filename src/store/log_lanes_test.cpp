// What a log does while lanes of the pool are full, or hang.
#include <gtest/gtest.h>

#include <algorithm>

#include "store/simulated_log.h"

namespace cairn::store {
namespace {

using io::sim::DiskCall;

// Holds `count` places of the lanes by which `disk` reads, for as long as the disk stalls now.
void hang(io::sim::Node& node, io::Disk& disk, int count, Duration span) {
  node.disk().stall(span);
  auto ask = [](Call call, io::Disk* of) -> Task<> { (void)co_await of->free_space(call, ""); };
  for (int i = 0; i < count; ++i) node.scope().spawn("hangs", ask(node.scope().call(), &disk));
}

TEST(LogLanes, a_full_lane_never_fences_the_log) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedLog s(seed);
    s.node.pool_faults.full = 700'000;
    ASSERT_TRUE(s.open());
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(s.append({{"r", std::string(1'000, 'x')}})) << i;
    EXPECT_FALSE(s.log->fenced());
    EXPECT_GT(s.log->segments().size(), 2u);
    EXPECT_GT(s.world.probes().count("pool.full"), 0u);
    s.node.pool_faults.full = 0;
    ASSERT_TRUE(s.open());
    EXPECT_EQ(s.found.entries.size(), 60u);
  }
}

TEST(LogLanes, a_step_that_never_began_does_not_fence_the_log) {
  for (const bool rolls : {false, true}) {
    SimulatedLog s;
    ASSERT_TRUE(s.open());
    ASSERT_TRUE(s.append({{"first", "data"}}));
    // A step of somebody else has the only thread of the committers' lane for longer than the log waits.
    hang(s.node, s.machine.disk.commits(), 1, s.options.patience + s.options.patience);
    s.world.run_for(Duration::millis(10));
    s.disk().heal();
    const Instant before = s.world.now();
    const ErrorCode code = rolls ? code_of(s.roll()) : code_of(s.append({{"second", "data"}}));
    EXPECT_EQ(code, ErrorCode::degraded);
    EXPECT_GE(s.world.now() - before, s.options.patience);
    EXPECT_FALSE(s.log->fenced());
    EXPECT_GT(s.world.probes().count("pool.withdrawn"), 0u);
    s.world.run_for(s.options.patience);
    if (rolls) ASSERT_TRUE(s.roll());
    ASSERT_TRUE(s.append({{"third", "data"}}));
    ASSERT_TRUE(s.open());
    ASSERT_EQ(s.found.entries.size(), 2u);
    EXPECT_EQ(s.found.entries[1].meta.substr(8), "third");
    EXPECT_TRUE(s.found.damages.empty());
  }
}

TEST(LogLanes, a_step_that_runs_too_long_fences_the_log) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  s.disk().stall(s.options.patience + s.options.patience);
  EXPECT_EQ(code_of(s.append({{"first", "data"}})), ErrorCode::degraded);
  EXPECT_TRUE(s.log->fenced());
}

// Readers fill their lane, and the tasks theirs: segments are begun and records appended as if they were not
TEST(LogLanes, no_reader_and_no_task_delays_a_commit) {
  SimulatedLog s;
  s.options.compacted = true;
  ASSERT_TRUE(s.open());
  hang(s.node, s.machine.disk, 400, Duration::seconds(20));
  hang(s.node, s.machine.disk.upkeep(), 400, Duration::seconds(20));
  s.world.run_for(Duration::millis(10));
  s.disk().heal();
  const Instant before = s.world.now();
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(s.append({{"r", std::string(1'000, 'x')}})) << i;
  EXPECT_GT(s.log->segments().size(), 2u);
  EXPECT_LT(s.world.now() - before, Duration::seconds(2));
}

TEST(LogLanes, a_segment_is_opened_once_however_many_wait_for_it) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({{"r", "data"}}));
  SegmentFiles files(s.machine, s.options.directory);
  const std::uint64_t before = s.disk().calls(DiskCall::open);
  int got = 0;
  auto ask = [](Call call, SegmentFiles* of, int* count) -> Task<> {
    if (co_await of->get(call, 1)) ++*count;
  };
  for (int i = 0; i < 500; ++i) s.node.scope().spawn("reader", ask(s.call(), &files, &got));
  ASSERT_TRUE(s.world.run_until([&] { return got == 500; }));
  EXPECT_EQ(s.disk().calls(DiskCall::open) - before, 1u);
}

}  // namespace
}  // namespace cairn::store
