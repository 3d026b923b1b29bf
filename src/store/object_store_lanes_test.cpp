// What a store does while lanes of the pool are full, or hang.
#include <gtest/gtest.h>

#include <algorithm>

#include "store/simulated_store.h"

namespace cairn::store {
namespace {

// Holds `count` places of the lanes by which `disk` reads, for as long as the disk stalls now.
void hang(io::sim::Node& node, io::Disk& disk, int count, Duration span) {
  node.disk().stall(span);
  auto ask = [](Call call, io::Disk* of) -> Task<> { (void)co_await of->free_space(call, ""); };
  for (int i = 0; i < count; ++i) node.scope().spawn("hangs", ask(node.scope().call(), &disk));
}

// there.
TEST(ObjectStoreLanes, the_index_is_asked_for_a_commit_while_readers_fill_their_lane) {
  LogKvOptions cold;
  cold.cold = 1'000'000;
  SimulatedStore s(1, 1, cold);
  ASSERT_TRUE(s.open());
  const auto token = s.begin();
  ASSERT_TRUE(token);
  ASSERT_TRUE(s.part(token->token, 0, sample(1 << 20)));
  ASSERT_TRUE(s.part(token->token, 1, sample(1'000)));
  const auto made = s.commit(token->token);
  ASSERT_TRUE(made);
  hang(s.node, s.machine().disk, 400, Duration::seconds(20));
  s.world.run_for(Duration::millis(10));
  s.disk().heal();
  const Instant before = s.world.now();
  EXPECT_TRUE(s.put(sample(5'000)));
  EXPECT_TRUE(s.remove(made->address));  // looks for its parts when the record is in the log
  EXPECT_LT(s.world.now() - before, Duration::seconds(2));
  EXPECT_FALSE(s.store->status().fenced);
  s.world.run_for(Duration::seconds(30));
}

TEST(ObjectStoreLanes, a_body_is_not_cut_by_readers_that_fill_their_lane) {
  SimulatedStore s(3);
  s.node.disk().faults.cold = 1'000'000;
  ASSERT_TRUE(s.open());
  std::vector<Address> stored;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto put = s.put(sample(300'000, i));
    ASSERT_TRUE(put);
    stored.push_back(put->address);
  }
  s.forget_cached(stored);
  LaneUse lanes;
  lanes.stall = Duration::seconds(10);
  const Call call = s.call().in_lanes(lanes);
  std::vector<std::shared_ptr<std::optional<Result<std::string>>>> readers;
  for (int i = 0; i < 600; ++i)
    readers.push_back(
        s.start(SimulatedStore::read_task(call, s.port(), stored[static_cast<std::size_t>(i) % 4])));
  ASSERT_TRUE(s.world.run_until([&] {
    return std::all_of(readers.begin(), readers.end(), [](const auto& one) { return one->has_value(); });
  }));
  for (std::size_t i = 0; i < readers.size(); ++i) {
    ASSERT_TRUE(**readers[i]) << i << " " << (**readers[i]).error().context;
    EXPECT_EQ(***readers[i], sample(300'000, i % 4)) << i;
  }
  EXPECT_GT(s.world.probes().count("pool.full"), 0u);
}

TEST(ObjectStoreLanes, a_body_whose_lane_completes_nothing_ends) {
  SimulatedStore s(3);
  s.node.disk().faults.cold = 1'000'000;
  ASSERT_TRUE(s.open());
  const auto put = s.put(sample(300'000));
  ASSERT_TRUE(put);
  s.forget_cached({put->address});
  s.disk().stall(Duration::seconds(1'000));
  LaneUse lanes;
  lanes.stall = Duration::seconds(10);
  const Instant before = s.world.now();
  const auto read = s.run(SimulatedStore::read_task(s.call().in_lanes(lanes), s.port(), put->address));
  EXPECT_EQ(code_of(read), ErrorCode::timeout);
  EXPECT_LT(s.world.now() - before, Duration::seconds(25));
  s.world.run_for(Duration::seconds(1'000));
}

// A store beside the one of the fixture, with all of its tasks, on the same shard, disk and pool.
struct Neighbour {
  explicit Neighbour(SimulatedStore& of)
      : s(of), store(options(of), of.maker, of.cache()), tasks(of.node.shard(), of.node.scope().call()) {
    CHECK(s.run(store.open(s.call(), s.machine(), s.log)).has_value());
    port = store.make_port(s.machine());
  }
  ~Neighbour() {
    tasks.cancel(StopReason::draining);
    CHECK(s.world.run_until([&] { return tasks.empty() && changes.empty(); }));
    port.reset();
  }
  static StoreOptions options(const SimulatedStore& of) {
    StoreOptions made = of.options;
    made.directory = "neighbour";
    return made;
  }
  void start() {
    ObjectHome& home = store.home();
    tasks.spawn("commit", home.committer().run(tasks.call()));
    tasks.spawn("compact", home.compactor().compact_loop(tasks.call()));
    tasks.spawn("scrub", home.scrubber().scrub_loop(tasks.call()));
    tasks.spawn("sweep", home.sweeper().sweep_loop(tasks.call()));
    tasks.spawn("index", home.index_keeper().index_loop(tasks.call()));
  }
  void put(std::string_view bytes) {
    Address address;
    Draft::Taken taken = s.draft(bytes, address);
    changes.spawn("put", forget(port->put(changes.call(), address, std::move(taken))));
  }
  static Task<> forget(Task<Result<Outcome>> task) { (void)co_await std::move(task); }

  SimulatedStore& s;
  ObjectStore store;
  std::unique_ptr<StorePort> port;
  Scope tasks;
  Scope changes{s.node.shard(), s.node.scope().call()};
};

// Puts, and deletes what is looked for in the index, in the time that they take on a healthy disk.
void expect_prompt_changes(SimulatedStore& s) {
  const Instant before = s.world.now();
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto put = s.put(sample(5'000, i));
    ASSERT_TRUE(put);
    EXPECT_TRUE(s.remove(put->address));
  }
  EXPECT_LT(s.world.now() - before, Duration::seconds(2));
}

LogKvOptions cold_index() {
  LogKvOptions options;
  options.cold = 1'000'000;
  return options;
}

TEST(ObjectStoreLanes, OH7_a_disk_that_hangs_delays_no_change_in_another_directory) {
  SimulatedStore s(1, 1, cold_index());
  ASSERT_TRUE(s.open());
  Neighbour other(s);
  other.start();
  s.world.run_for(Duration::millis(500));
  // Its committer waits for a sync, its compactor asks for room, and so on.
  s.disk().stall(Duration::seconds(100));
  other.store.distrust_index(other.store.index_number());
  other.put(sample(1'000));
  s.world.run_for(Duration::seconds(3));
  s.disk().heal();
  expect_prompt_changes(s);
  s.world.run_for(Duration::seconds(200));
}

// A job of a lane that does not end.
struct Endless final : io::sim::SimLanes::Entry {
  Endless(io::sim::Node& node, Lane lane)
      : pool(static_cast<io::sim::SimPool&>(node.pool())),
        entered(pool.lanes().try_enter(lane, *this, pool)) {}
  ~Endless() override {
    if (!pool.lanes().try_leave(*this)) pool.lanes().end(*this);
  }
  void begin() override {}
  io::sim::SimPool& pool;
  Result<> entered;
};

// Whatever the tasks of a store may ask of the lanes at one time hangs.
TEST(ObjectStoreLanes, OH7_what_tasks_ask_for_one_directory_delays_no_change_in_another) {
  SimulatedStore s(1, 1, cold_index());
  ASSERT_TRUE(s.open());
  Neighbour other(s);
  std::vector<std::unique_ptr<Endless>> hung;
  const auto hang_all = [&](Lane lane, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) hung.push_back(std::make_unique<Endless>(s.node, lane));
  };
  hang_all(Lane::commit, 2);  // committer, compactor
  hang_all(Lane::index, 5);   // these, scrubber, sweeper, indexer
  hang_all(Lane::upkeep, 4);  // all but the committer
  expect_prompt_changes(s);
  EXPECT_TRUE(s.compact()) << "so does what makes room for them";
}

}  // namespace
}  // namespace cairn::store
