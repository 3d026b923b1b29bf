#include "services/index/dht_target.h"

#include <gtest/gtest.h>

#include "io/sim/dht.h"
#include "io/sim/world.h"
#include "services/index/simulated_targets.h"

namespace cairn::index {
namespace {

constexpr Reach anywhere{io::DhtMode::local, true};

class DhtTargetTest : public testing::Test {
 protected:
  explicit DhtTargetTest(io::sim::SimDhtPlan plan = {})
      : network(io::sim::SimDht::make(world.clockwork(), plan)) {}
  template <class T>
  static Task<> into(Task<T> task, std::shared_ptr<std::optional<T>> out) {
    out->emplace(co_await std::move(task));
  }
  template <class T>
  T run(Task<T> task) {
    auto out = std::make_shared<std::optional<T>>();
    node.scope().spawn("operation", into(std::move(task), out));
    CHECK(world.run_until([&] { return out->has_value(); }));
    return std::move(**out);
  }
  void SetUp() override {
    opened = run(network->open(
                     node.scope().call(), machine,
                     {.mode = io::DhtMode::private_network, .network = 1, .bootstrap = {{"10.0.0.1", 1}}}))
                 .value();
    port = opened->make_port(machine);
  }
  void TearDown() override {
    port.reset();
    CHECK(run(opened->close(node.scope().call(), machine)));
    opened.reset();
    world.stop();
  }
  Result<Answer> ask(Duration within = Duration::seconds(20)) {
    DhtTarget target(node.shard(), *port, 1, anywhere, refused);
    return run(target.ask(node.scope().call().by(node.shard().now() + within), sample_address(1)));
  }
  io::DhtKey key() { return io::dht_key(provider_key_tag, 1, sample_address(1)); }
  void plant(const SignedProvider& provider, std::uint64_t id) {
    network->plant(key(), {id, provider.bytes});
  }
  SignedProvider fresh(ProviderParts parts = {}) { return sample_provider(parts, node.shard().wall()); }

  io::sim::World world{7};
  io::sim::Node& node = world.add_node("a", 1);
  io::Machine machine = node.machine(0);
  std::shared_ptr<io::sim::SimDht> network;
  std::shared_ptr<io::DhtNode> opened;
  std::unique_ptr<io::Dht> port;
  DhtRefused refused;
};

TEST_F(DhtTargetTest, a_fresh_record_is_found_soon_although_the_search_ends_late) {  // DT-2
  network->faults.lag = Duration::seconds(1);
  plant(fresh({.key = 1}), 1);
  plant(fresh({.key = 2}), 2);
  const Instant begun = node.shard().now();
  const auto answer = ask();
  ASSERT_TRUE(answer);
  EXPECT_GE(answer->providers.size(), 1u);
  EXPECT_LT(node.shard().now() - begun, Duration::millis(1000));
}

TEST_F(DhtTargetTest, nothing_there_is_not_here_and_no_peer_is_an_error) {  // DT-2
  const auto nothing = ask();
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->is_empty());
  network->set_all_dead(true);
  EXPECT_FALSE(ask());
}

TEST_F(DhtTargetTest, forged_and_foreign_records_are_dropped_and_counted) {  // DT-1
  SignedProvider forged = fresh({.key = 3});
  forged.bytes.back() = static_cast<char>(forged.bytes.back() ^ 1);
  plant(forged, 1);
  plant(fresh({.key = 4, .address = 2}), 2);
  network->plant(key(), {3, "no record"});
  const auto answer = ask();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->providers.empty());
  EXPECT_EQ(refused.forged, 2u);
  EXPECT_EQ(refused.foreign, 1u);
}

TEST_F(DhtTargetTest, records_that_are_over_do_not_count_as_found) {
  plant(fresh({.key = 1, .lives = Duration::seconds(1)}), 1);
  world.run_for(Duration::seconds(5));
  const auto answer = ask();
  ASSERT_TRUE(answer);
  for (const SignedProvider& one : answer->providers) EXPECT_FALSE(is_fresh(one.record, node.shard().wall()));
}

TEST_F(DhtTargetTest, its_deadline_ends_it_and_leaves_no_task) {
  network->faults.silent_end = 1'000'000;
  const auto answer = ask(Duration::millis(700));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::timeout);
}

TEST_F(DhtTargetTest, it_knows_nothing_of_names) {
  DhtTarget target(node.shard(), *port, 1, anywhere, refused);
  EXPECT_FALSE(target.can_answer(std::string("docs")));
  EXPECT_TRUE(target.can_answer(sample_address(1)));
}

}  // namespace
}  // namespace cairn::index
