#include "services/index/publisher.h"

#include <gtest/gtest.h>

#include "services/index/dht_target.h"
#include "services/index/simulated_table.h"

namespace cairn::index {
namespace {

constexpr PublishPolicy everywhere{.keys_most = 100, .network = 1, .reach = {io::DhtMode::local, true}};

// A DHT that counts, and fails when it is told to.
class CountedDht final : public io::Dht {
 public:
  explicit CountedDht(io::Dht& under) noexcept : under_(under) {}
  Task<Result<io::DhtOutcome>> get(Call call, io::DhtKey key, io::DhtSink take) override {
    return under_.get(call, key, std::move(take));
  }
  Task<Result<>> put(Call call, io::DhtKey key, io::DhtValue value) override {
    ++puts;
    most = std::max(most, ++under_way);
    if (lasts > Duration{}) (void)co_await sleep_for(call, lasts);
    --under_way;
    if (fails) co_return fail(ErrorCode::upstream, "as the test says");
    co_return co_await under_.put(call, key, std::move(value));
  }
  Task<Result<io::DhtStatus>> status(Call call) override { return under_.status(call); }
  Task<Result<std::vector<io::DhtPeer>>> export_peers(Call call) override {
    return under_.export_peers(call);
  }
  Task<Result<>> bootstrap(Call call, std::vector<Endpoint> nodes) override {
    return under_.bootstrap(call, std::move(nodes));
  }

  int puts = 0, under_way = 0, most = 0;
  bool fails = false;
  Duration lasts{};

 private:
  io::Dht& under_;
};

class PublisherTest : public testing::Test {
 protected:
  void begin(PublishPolicy policy = everywhere) {
    at.open();
    dht.emplace(at.open_dht());
    publisher.emplace(at.node.shard(), *dht, *at.port, policy);
    tasks.emplace(at.node.shard(), at.call());
    tasks->spawn("publisher", publisher->run(tasks->call()));
  }
  void TearDown() override {
    if (!tasks) return;
    tasks->cancel(StopReason::draining);
    CHECK(at.world.run_until([&] { return tasks->empty(); }));
    tasks.reset();
    publisher.reset();
    dht.reset();
  }
  void announce(ProviderParts parts) {
    at.announce({at.provider(parts)});
    publisher->note(sample_address(parts.address));
  }
  std::size_t values(unsigned char address) {
    std::size_t count = 0;
    CHECK(at.run(at.dht->get(at.call(), io::dht_key(provider_key_tag, 1, sample_address(address)),
                             [&](const io::DhtValue&) {
                               ++count;
                               return false;
                             })));
    return count;
  }

  SimulatedTable at;
  std::optional<CountedDht> dht;
  std::optional<Publisher> publisher;
  std::optional<Scope> tasks;
};

TEST_F(PublisherTest, what_is_announced_is_put_and_put_again_while_it_stands) {  // DP-3
  begin();
  announce({.lives = Duration::seconds(2000)});
  at.world.run_for(Duration::seconds(1));
  EXPECT_EQ(values(1), 1u);
  EXPECT_EQ(dht->puts, 1);
  at.world.run_for(Duration::seconds(470));
  EXPECT_EQ(dht->puts, 1);
  at.world.run_for(Duration::seconds(20));
  EXPECT_EQ(dht->puts, 2);
  // Ten minutes after the first put it is still there.
  at.world.run_for(Duration::seconds(200));
  EXPECT_EQ(values(1), 1u);
  // Its record is over: it is put no more, and the DHT forgets it.
  at.world.run_for(Duration::seconds(3000));
  EXPECT_EQ(values(1), 0u);
  EXPECT_EQ(publisher->status().covered, 0u);
}

TEST_F(PublisherTest, a_withdrawn_address_is_covered_no_more) {  // DP-3
  begin();
  announce({.sequence = 1});
  at.world.run_for(Duration::seconds(1));
  announce({.sequence = 2, .withdrawn = true});
  at.world.run_for(Duration::seconds(400));
  EXPECT_EQ(publisher->status().covered, 0u);
  EXPECT_EQ(dht->puts, 1);
}

TEST_F(PublisherTest, at_most_64_puts_are_under_way) {  // DP-2
  PublishPolicy policy = everywhere;
  policy.keys_most = 1000;
  begin(policy);
  dht->lasts = Duration::millis(500);
  std::vector<SignedProvider> all;
  for (unsigned char i = 1; i <= 200; ++i) all.push_back(at.provider({.address = i}));
  at.announce(std::move(all));
  for (unsigned char i = 1; i <= 200; ++i) publisher->note(sample_address(i));
  at.world.run_for(Duration::seconds(10));
  EXPECT_EQ(dht->puts, 200);
  EXPECT_EQ(dht->most, static_cast<int>(Publisher::puts_most));
}

TEST_F(PublisherTest, the_named_and_then_the_newest_are_covered) {  // DP-1
  PublishPolicy policy = everywhere;
  policy.keys_most = 3;
  begin(policy);
  for (unsigned char i = 1; i <= 3; ++i) announce({.address = i});
  publisher->note_named(sample_address(1));
  at.world.run_for(Duration::seconds(1));
  announce({.address = 4});
  announce({.address = 5});
  at.world.run_for(Duration::seconds(2));
  EXPECT_EQ(publisher->status().covered, 3u);
  EXPECT_EQ(publisher->status().uncovered, 2u);
  // After ten minutes only the covered ones are still there.
  at.announce({at.provider({.sequence = 2, .lives = Duration::seconds(5000), .address = 1}),
               at.provider({.sequence = 2, .lives = Duration::seconds(5000), .address = 2}),
               at.provider({.sequence = 2, .lives = Duration::seconds(5000), .address = 5})});
  at.world.run_for(Duration::seconds(650));
  EXPECT_EQ(values(1), 1u);
  EXPECT_EQ(values(2), 0u);
  EXPECT_EQ(values(5), 1u);
}

TEST_F(PublisherTest, an_address_that_is_covered_anew_during_its_put_has_a_put_of_its_own) {
  PublishPolicy policy = everywhere;
  policy.keys_most = 1;
  begin(policy);
  dht->lasts = Duration::millis(500);
  announce({.address = 1});
  at.world.run_for(Duration::millis(100));
  announce({.address = 2});  // the first is given up, and its put goes on
  announce({.sequence = 2, .address = 1});
  at.world.run_for(Duration::seconds(5));
  EXPECT_EQ(publisher->status().covered, 1u);
  EXPECT_EQ(dht->puts, 3);
  EXPECT_EQ(values(1), 2u);  // the DHT replaces nothing
  announce({.sequence = 3, .withdrawn = true, .address = 1});
  at.world.run_for(Duration::seconds(1000));
  EXPECT_EQ(publisher->status().covered, 0u);
}

TEST_F(PublisherTest, a_put_that_failed_is_tried_again) {
  begin();
  dht->fails = true;
  announce({});
  at.world.run_for(Duration::seconds(1));
  EXPECT_EQ(values(1), 0u);
  EXPECT_EQ(publisher->status().failed, 1u);
  dht->fails = false;
  at.world.run_for(Duration::seconds(40));
  EXPECT_EQ(values(1), 1u);
}

TEST_F(PublisherTest, a_record_that_leads_nowhere_is_not_put) {
  PublishPolicy policy = everywhere;
  policy.reach = {io::DhtMode::public_network, false};
  begin(policy);
  announce({});  // it has a private address
  at.world.run_for(Duration::seconds(3));
  EXPECT_EQ(dht->puts, 0);
  EXPECT_EQ(publisher->status().covered, 0u);
}

}  // namespace
}  // namespace cairn::index
