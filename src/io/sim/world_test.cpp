#include "io/sim/world.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "runtime/mpsc.h"
#include "runtime/wait.h"

namespace cairn::io::sim {
namespace {

Task<> nap(Call call, Duration span, int times, std::vector<std::int64_t>* woke) {
  for (int i = 0; i < times; ++i) {
    if (!co_await sleep_for(call, span)) co_return;
    if (woke != nullptr) woke->push_back(current_shard()->now().ns);
  }
}
Task<> label(Call call, char name, std::string* out) {
  for (int i = 0; i < 3; ++i) {
    *out += name;
    co_await yield(call);
  }
}
Task<> spin(Call call) {
  while (!call.stopped() && !call.expired()) co_await yield(call);
}

std::string order_of(std::uint64_t seed) {
  World world(seed);
  std::string out;
  Node& node = world.add_node("a", 2);
  for (const char name : {'a', 'b', 'c'}) node.scope(0).spawn("l", label(node.scope(0).call(), name, &out));
  for (const char name : {'x', 'y', 'z'}) node.scope(1).spawn("l", label(node.scope(1).call(), name, &out));
  world.run_to_rest();
  return out;
}

TEST(World, the_seed_decides_who_runs_next) {
  EXPECT_EQ(order_of(1), order_of(1));
  std::vector<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const std::string order = order_of(seed);
    EXPECT_EQ(order.size(), 18u);
    if (std::find(seen.begin(), seen.end(), order) == seen.end()) seen.push_back(order);
  }
  EXPECT_GE(seen.size(), 7u);
}

// --- the end of a process

using Notes = std::vector<std::string>;
// Says when it goes.
struct Noted {
  Noted(Notes& to, const char* text) : notes(to), what(text) {}
  ~Noted() { notes.push_back(what); }
  Notes& notes;
  const char* what;
};

Task<> work_on_the_pool(Call call, Machine machine, Notes* notes, bool* begun) {
  Noted task(*notes, "task");
  auto held = std::make_shared<Noted>(*notes, "job");
  (void)co_await run(machine.pool, call, Lane::read, [owned = std::move(held), begun] { *begun = true; });
}
Task<> read_the_disk(Call call, Machine machine, Notes* notes, bool* begun) {
  Noted task(*notes, "task");
  auto file = co_await machine.disk.open(call, "f", OpenMode::read);
  if (!file) co_return;
  auto room = std::make_shared<std::array<std::byte, 4>>();
  std::shared_ptr<void> held(room.get(), [room, notes](void*) { notes->push_back("job"); });
  *begun = true;
  (void)co_await (*file)->read_into(call, 0, Region{*room, std::move(held)});
}

TEST(World, a_process_ends_its_tasks_then_its_jobs_then_its_program) {
  for (auto* work : {work_on_the_pool, read_the_disk}) {
    Notes notes;
    bool begun = false;
    World world(7);
    Node& node = world.add_node("a", 2, [&](Node& self) { self.make<Noted>(notes, "program"); });
    node.disk().put("f", "text");
    node.scope(1).spawn("work", work(node.scope(1).call(), node.machine(1), &notes, &begun));
    ASSERT_TRUE(world.run_until([&] { return begun && node.under_way() > 0; }));
    world.stop();
    EXPECT_EQ(notes, (Notes{"task", "job", "program"}));
    EXPECT_EQ(world.probes().count("world.job_at_the_end"), 1u);
  }
}

TEST(World, time_jumps_to_the_next_timer) {
  World world(1);
  std::vector<std::int64_t> woke;
  Node& node = world.add_node("a");
  node.scope().spawn("nap", nap(node.scope().call(), Duration::seconds(3600), 3, &woke));
  EXPECT_TRUE(world.run_to_rest(Duration::seconds(100'000)));
  ASSERT_EQ(woke.size(), 3u);
  EXPECT_GE(woke[2], Duration::seconds(3 * 3600).ns);
  EXPECT_LT(world.steps(), 10u);
}

TEST(World, a_run_stops_at_its_time_and_goes_on_from_there) {
  World world(1);
  Node& node = world.add_node("a");
  node.scope().spawn("nap", nap(node.scope().call(), Duration::seconds(1), 1000, nullptr));
  world.run_for(Duration::millis(5500));
  EXPECT_EQ(world.now(), Instant{Duration::millis(5500).ns});
  EXPECT_EQ(node.shard().now(), world.now());
  int actions = 0;
  world.after(Duration::seconds(1), [&] { ++actions; });
  EXPECT_TRUE(world.run_until([&] { return actions == 1; }));
  EXPECT_EQ(world.now(), Instant{Duration::millis(6500).ns});
  EXPECT_FALSE(world.run_until([&] { return actions == 2; }, Duration::seconds(10)));
}

TEST(World, a_loop_that_never_waits_cannot_stop_time) {
  World world(1);
  Node& node = world.add_node("a");
  node.scope().spawn("spin", spin(node.scope().call().by(Instant{Duration::millis(10).ns})));
  EXPECT_TRUE(world.run_to_rest());
  EXPECT_EQ(world.live_tasks(), 0u);
}

TEST(World, a_paused_node_stands_still_and_catches_up) {
  World world(1);
  std::vector<std::int64_t> woke;
  Node& node = world.add_node("a");
  node.scope().spawn("nap", nap(node.scope().call(), Duration::seconds(1), 1, &woke));
  world.run_for(Duration::millis(10));
  world.pause(node);
  world.run_for(Duration::seconds(60));
  EXPECT_TRUE(woke.empty());
  world.resume(node);
  world.run_for(Duration::seconds(1));
  ASSERT_EQ(woke.size(), 1u);
  EXPECT_GE(woke[0], Duration::seconds(60).ns);
}

TEST(World, wall_clocks_may_differ) {
  World world(1);
  Node& a = world.add_node("a");
  Node& b = world.add_node("b");
  world.set_clock_skew(b, Duration::seconds(-90));
  EXPECT_EQ(a.shard().wall().ms - b.shard().wall().ms, 90'000);
  world.crash(b);
  world.restart(b);
  EXPECT_EQ(a.shard().wall().ms - b.shard().wall().ms, 90'000);
}

TEST(World, a_crash_ends_every_task_and_a_restart_boots_again) {
  int boots = 0;
  int alive = 0;
  World world(1);
  struct Service {
    explicit Service(int* count) : alive(count) { ++*alive; }
    ~Service() { --*alive; }
    int* alive;
  };
  Node& node = world.add_node("a", 2, [&](Node& self) {
    ++boots;
    self.make<Service>(&alive);
    for (unsigned i = 0; i < self.shards(); ++i)
      self.scope(i).spawn("forever",
                          nap(self.scope(i).call().shield(), Duration::seconds(1), 1'000'000, nullptr));
  });
  world.run_for(Duration::seconds(5));
  EXPECT_EQ(node.live_tasks(), 2u);
  world.crash(node);
  EXPECT_FALSE(node.up());
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(node.live_tasks(), 0u);
  world.restart(node);
  EXPECT_EQ(boots, 2);
  EXPECT_EQ(alive, 1);
  world.run_for(Duration::seconds(5));
  EXPECT_EQ(node.live_tasks(), 2u);
}

Task<> ask_pool(Pool* pool, Call call, int n, std::vector<int>* out) {
  auto answer = co_await run(*pool, call, Lane::cpu, [n] { return n * 2; });
  out->push_back(answer ? *answer : -1);
}

TEST(World, pool_jobs_come_back_through_the_mailbox_in_any_order) {
  World world(5);
  Node& node = world.add_node("a");
  std::vector<int> out;
  for (int i = 0; i < 20; ++i)
    node.scope().spawn("ask", ask_pool(&node.pool(), node.scope().call(), i, &out));
  EXPECT_TRUE(world.run_to_rest());
  ASSERT_EQ(out.size(), 20u);
  EXPECT_FALSE(std::is_sorted(out.begin(), out.end()));
  std::sort(out.begin(), out.end());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], i * 2);
}

TEST(World, a_crash_in_the_middle_of_pool_jobs_leaves_nothing) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World world(seed);
    Node& node = world.add_node("a");
    std::vector<int> out;
    for (int i = 0; i < 20; ++i)
      node.scope().spawn("ask", ask_pool(&node.pool(), node.scope().call(), i, &out));
    world.run_for(Duration::micros(40));
    world.crash(node);
    EXPECT_EQ(out.size(), 20u);
  }
}

TEST(World, shards_of_a_node_exchange_mail) {
  World world(1);
  Node& node = world.add_node("a", 2);
  const Shard* delivered_on = nullptr;
  ASSERT_TRUE(node.mailbox(1).try_post_call([&] { delivered_on = current_shard(); }));
  EXPECT_TRUE(world.run_to_rest());
  EXPECT_EQ(delivered_on, &node.shard(1));
}

TEST(World, entropy_repeats_with_the_seed_and_not_within_it) {
  std::array<std::byte, 13> a{}, b{}, c{};
  World one(1), same(1);
  Node& node = one.add_node("a");
  node.machine().entropy.fill(a);
  same.add_node("a").machine().entropy.fill(b);
  EXPECT_EQ(a, b);
  one.crash(node);
  one.restart(node);
  node.machine().entropy.fill(c);
  EXPECT_NE(a, c);
}

}  // namespace
}  // namespace cairn::io::sim
