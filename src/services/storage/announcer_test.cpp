#include "services/storage/announcer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "codec/base64.h"
#include "codec/json_reader.h"
#include "io/sim/world.h"
#include "runtime/wait.h"

namespace cairn::storage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Le;

Address numbered(std::uint32_t number) {
  Address address;
  for (std::size_t i = 0; i < 4; ++i) address.bytes[i] = static_cast<std::byte>(number >> (24 - 8 * i));
  return address;
}

struct Shelf final : Holdings {
  std::set<Address> objects;
  std::set<Address> unreadable;
  bool broken = false;
  std::uint64_t elsewhere = 0;  // objects that are counted, and never come up

  Task<Result<bool>> has(Call, Address address) override {
    if (broken || unreadable.contains(address)) co_return fail(ErrorCode::degraded, "shelf");
    co_return objects.contains(address);
  }
  Task<Result<Page>> list(Call, std::optional<Address> after, std::size_t most) override {
    if (broken) co_return fail(ErrorCode::degraded, "shelf");
    Page page;
    auto at = after ? objects.upper_bound(*after) : objects.begin();
    for (; at != objects.end() && page.addresses.size() < most; ++at) page.addresses.push_back(*at);
    if (page.addresses.size() == most) page.last = page.addresses.back();
    co_return page;
  }
  std::uint64_t count() const noexcept override { return objects.size() + elsewhere; }
};

// Does what its script says, one act for each request; then it takes everything.
struct ScriptedIndex final : IndexPort {
  struct Act {
    std::optional<Error> error = {};
    bool hangs = false;
    bool took = false;  // and the answer is lost
  };
  struct Batch {
    Instant at;
    std::vector<format::ProviderRecord> records;
    std::size_t bytes = 0;
  };
  std::deque<Act> acts;
  std::vector<Batch> batches;
  std::map<Address, format::ProviderRecord> known;
  std::size_t older = 0;
  Ulid epoch = make_ulid(WallTime{1}, 1, 1);
  bool records_kept = true;
  bool checks = true;  // signatures
  int under_way = 0;
  Duration takes = Duration::millis(2);

  Task<Result<Told>> tell(Call call, std::string document) override {
    CHECK(++under_way == 1);  // AN-1
    auto told = co_await answer(call, std::move(document));
    --under_way;
    co_return told;
  }
  Task<Result<Told>> answer(Call call, std::string document) {
    CHECK(call.deadline() < Instant::never());  // AN-1
    Act act;
    if (!acts.empty()) {
      act = acts.front();
      acts.pop_front();
    }
    CO_TRY_VOID(co_await sleep_for(call, act.hangs ? Duration::seconds(3600) : takes));
    if (act.error && !act.took) {
      batches.push_back({current_shard()->now(), {}, 0});
      co_return fail(*act.error);
    }
    const Told told = take(document);
    if (act.error) co_return fail(*act.error);
    co_return told;
  }
  Told take(const std::string& document) {
    codec::JsonReader reader;
    const auto root = reader.parse(document);
    auto object = root->object();
    const auto items = object->required("records")->items();
    Batch batch{current_shard()->now(), {}, document.size()};
    Told told{0, 0, epoch};
    for (const codec::JsonValue& item : *items) {
      const std::string bytes = *codec::decode_base64(*item.as_string());
      const auto record = checks ? format::decode_provider_record(as_bytes(bytes))
                                 : format::read_provider_record(as_bytes(bytes));
      CHECK(record.has_value());
      format::ProviderRecord& here = known[record->address];
      const bool newer = here.sequence < record->sequence;
      ++(newer ? told.taken : told.ignored);
      if (!newer) ++older;
      if (newer) here = *record;
      batch.records.push_back(*record);
    }
    batches.push_back(std::move(batch));
    return told;
  }
  bool has(std::uint32_t number) const {
    const auto found = known.find(numbered(number));
    return found != known.end() && !found->second.is_withdrawal();
  }
  void lose_everything() {
    known.clear();
    epoch = make_ulid(WallTime{1}, 2, batches.size());
  }
};

std::shared_ptr<const crypto::Ed25519Key> sample_key() {
  std::array<std::byte, 32> seed;
  seed.fill(std::byte{9});
  return std::make_shared<const crypto::Ed25519Key>(seed);
}

struct Shape {
  std::size_t capacity = store::changed_capacity;
  AnnouncerOptions options = {.key = sample_key(), .endpoints = {*parse_announced("10.0.0.1:7410")}};
};

class Announcing {
 public:
  Announcing() : Announcing(Shape{}) {}
  explicit Announcing(Shape shape)
      : world(11), node(world.add_node("a")), feed(shape.capacity), options(std::move(shape.options)) {}
  ~Announcing() { stop(); }

  void start() {
    ShardScope here(node.shard());
    if (!machine) machine.emplace(node.machine());
    scope = std::make_unique<Scope>(node.shard(), node.scope().call());
    announcer = std::make_unique<Announcer>(*machine, feed, shelf, index, status, options, observe::Logger());
    scope->spawn("announcer", run(scope->call()));
  }
  // How long it takes to end.
  Duration end() {
    const Instant before = world.now();
    {
      ShardScope here(node.shard());
      scope->cancel(StopReason::draining);
    }
    CHECK(world.run_until([&] { return scope->empty(); }));
    scope.reset();
    announcer.reset();
    return world.now() - before;
  }
  void stop() {
    if (scope) (void)end();
    world.stop();
  }
  void put(std::uint32_t number) {
    shelf.objects.insert(numbered(number));
    tell(number);
  }
  void remove(std::uint32_t number) {
    shelf.objects.erase(numbered(number));
    tell(number);
  }
  void tell(std::uint32_t number) {
    ShardScope here(node.shard());
    feed.tell(std::array{numbered(number)}, world.now());
  }
  template <class Done>
  bool run_until(Done done, Duration within = Duration::seconds(3600)) {
    return world.run_until(done, within);
  }
  // Until it has nothing left to say.
  bool settle() {
    return run_until(
        [&] {
          return requests(Said::taken) > 0 && status.covered == shelf.count() &&
                 count_pending(feed, status) == 0;
        },
        Duration::seconds(600));
  }
  Duration lag() { return find_lag(feed, status, world.now()); }
  std::uint64_t requests(Said said) { return status.requests[static_cast<std::size_t>(said)]; }
  std::size_t said() const {
    std::size_t records = 0;
    for (const auto& batch : index.batches) records += batch.records.size();
    return records;
  }

  io::sim::World world;
  io::sim::Node& node;
  store::ChangeFeed feed;
  Shelf shelf;
  ScriptedIndex index;
  AnnounceStatus status;
  AnnouncerOptions options;
  std::optional<io::Machine> machine;
  std::unique_ptr<Scope> scope;
  std::unique_ptr<Announcer> announcer;

 private:
  Task<> run(Call call) { return announcer->run(call); }
};

Error busy() { return {ErrorCode::busy, "busy", Side::upstream}; }
Error away() { return {ErrorCode::degraded, "away", Side::upstream}; }

TEST(Announcer, a_change_is_announced_soon_and_changes_of_one_moment_together) {
  Announcing a;
  a.start();
  ASSERT_TRUE(a.settle());
  a.world.run_for(Duration::seconds(1));
  a.index.batches.clear();
  const Instant before = a.world.now();
  for (std::uint32_t i = 1; i <= 30; ++i) a.put(i);
  ASSERT_TRUE(a.run_until([&] { return a.index.has(30); }));
  EXPECT_LE(a.world.now() - before, Duration::millis(80));
  ASSERT_EQ(a.index.batches.size(), 1u);
  EXPECT_EQ(a.index.batches[0].records.size(), 30u);
  const format::ProviderRecord& record = a.index.known.at(numbered(1));
  EXPECT_THAT(record.endpoints, ElementsAre(*parse_announced("10.0.0.1:7410")));
  EXPECT_EQ(record.key, sample_key()->public_key());
  EXPECT_GE(record.expiry.ms - a.node.shard().wall().ms, Announcer::life_least.to_millis() - 1000);
}

TEST(Announcer, what_was_removed_is_withdrawn_by_a_later_record_without_endpoints) {
  Announcing a;
  a.start();
  a.put(1);
  ASSERT_TRUE(a.run_until([&] { return a.index.has(1); }));
  const std::uint64_t first = a.index.known.at(numbered(1)).sequence;
  a.remove(1);
  ASSERT_TRUE(a.run_until([&] { return !a.index.has(1); }));
  EXPECT_GT(a.index.known.at(numbered(1)).sequence, first);
}

TEST(Announcer, a_removal_that_overtakes_a_put_is_what_counts_and_so_is_the_other_way_round) {
  Announcing a;
  a.start();
  ASSERT_TRUE(a.settle());
  a.put(1);
  a.remove(1);
  a.remove(2);
  a.put(2);
  ASSERT_TRUE(a.run_until([&] { return a.index.has(2); }));
  a.world.run_for(Duration::seconds(5));
  EXPECT_FALSE(a.index.has(1));
  EXPECT_TRUE(a.index.has(2));
  EXPECT_EQ(a.index.older, 0u);
}

TEST(Announcer, an_object_that_goes_while_its_record_is_under_way_is_withdrawn_after_it) {
  Announcing a;
  a.index.takes = Duration::seconds(2);
  a.start();
  ASSERT_TRUE(a.run_until([&] { return a.index.batches.size() == 1; }));
  a.put(1);
  ASSERT_TRUE(a.run_until([&] { return a.index.under_way == 1; }));
  a.remove(1);
  ASSERT_TRUE(a.run_until([&] { return a.index.known.contains(numbered(1)); }));
  ASSERT_TRUE(a.run_until([&] { return !a.index.has(1); }));
  EXPECT_EQ(a.index.older, 0u);
}

TEST(Announcer, a_start_announces_everything_in_few_requests) {
  Announcing a;
  a.index.checks = false;
  for (std::uint32_t i = 0; i < 100'000; ++i) a.shelf.objects.insert(numbered(i));
  a.start();
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == 100'000; }));
  EXPECT_THAT(a.index.batches.size(), Le(200u));
  for (const auto& batch : a.index.batches) EXPECT_THAT(batch.records.size(), Le(Announcer::batch_most));
  ASSERT_TRUE(a.settle());
  EXPECT_EQ(a.status.covered, 100'000u);
  EXPECT_EQ(a.lag(), Duration{});
}

TEST(Announcer, the_largest_batch_fits_into_what_the_index_reads) {
  Shape shape;
  shape.options.endpoints.clear();
  for (int i = 0; i < 8; ++i)
    shape.options.endpoints.push_back(
        *parse_announced("https://[2001:db8:1111:2222:3333:4444:5555:666" + std::to_string(i) + "]:65535"));
  Announcing a(shape);
  for (std::uint32_t i = 0; i < Announcer::batch_most; ++i) a.shelf.objects.insert(numbered(i));
  a.start();
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == Announcer::batch_most; }));
  EXPECT_EQ(a.index.batches[0].records.size(), Announcer::batch_most);
  EXPECT_THAT(a.index.batches[0].bytes, Le(std::size_t{1} << 20));
}

TEST(Announcer, an_index_with_another_epoch_is_told_everything_again) {
  Announcing a;
  for (std::uint32_t i = 0; i < 2'500; ++i) a.shelf.objects.insert(numbered(i));
  a.start();
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == 2'500; }));
  a.world.run_for(Duration::seconds(100));
  a.index.lose_everything();
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == 2'500; }, Announcer::quiet_most * 2));
  ASSERT_TRUE(a.settle());
  a.index.lose_everything();
  a.put(99'999);
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == 2'501; }, Duration::seconds(5)));
}

TEST(Announcer, an_index_whose_epoch_changes_with_every_answer_still_learns_of_everything) {
  Announcing a;
  for (std::uint32_t i = 0; i < 5'000; ++i) a.shelf.objects.insert(numbered(i));
  a.start();
  std::set<Address> heard;
  for (int i = 0; i < 100 && heard.size() < 5'000; ++i) {
    const std::size_t before = a.index.batches.size();
    ASSERT_TRUE(a.run_until([&] { return a.index.batches.size() > before; }));
    for (const auto& record : a.index.batches.back().records) heard.insert(record.address);
    a.index.epoch = make_ulid(WallTime{1}, 1, before + 2);
  }
  EXPECT_EQ(heard.size(), 5'000u);
}

TEST(Announcer, changes_that_the_feed_had_no_room_for_are_announced_all_the_same) {
  Announcing a({.capacity = 16});
  a.start();
  ASSERT_TRUE(a.settle());
  for (std::uint32_t i = 0; i < 1'000; ++i) a.put(i);
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == 1'000; }, Duration::seconds(60)));
  ASSERT_TRUE(a.settle());
  EXPECT_EQ(a.lag(), Duration{});
}

TEST(Announcer, an_index_that_is_busy_or_away_is_asked_again_and_ever_more_seldom) {
  for (const Error& error : {busy(), away()}) {
    Announcing a;
    a.start();
    ASSERT_TRUE(a.settle());
    a.world.run_for(Duration::seconds(1));
    for (int i = 0; i < 6; ++i) a.index.acts.push_back({.error = error});
    a.index.batches.clear();
    a.put(1);
    ASSERT_TRUE(a.run_until([&] { return a.index.batches.size() == 6; }));
    for (std::size_t i = 2; i < 6; ++i)
      EXPECT_GE(a.index.batches[i].at - a.index.batches[i - 1].at, Duration::millis(50) * (1 << (i - 1)))
          << i;
    EXPECT_GT(a.lag(), Duration::seconds(1));
    EXPECT_EQ(count_pending(a.feed, a.status), 1u);
    a.put(2);
    ASSERT_TRUE(a.run_until([&] { return a.index.has(1) && a.index.has(2); }));
    ASSERT_TRUE(a.settle());
    EXPECT_EQ(a.requests(error.code == ErrorCode::busy ? Said::busy : Said::unanswered), 6u);
    EXPECT_EQ(a.lag(), Duration{});
  }
}

TEST(Announcer, a_removal_is_withdrawn_once_the_index_is_back) {
  Announcing a;
  a.start();
  a.put(1);
  ASSERT_TRUE(a.run_until([&] { return a.index.has(1); }));
  for (int i = 0; i < 5; ++i) a.index.acts.push_back({.error = away()});
  a.remove(1);
  ASSERT_TRUE(a.run_until([&] { return !a.index.has(1); }, Duration::seconds(60)));
}

TEST(Announcer, a_batch_whose_answer_was_lost_is_said_again_and_is_in_force) {
  Announcing a;
  a.start();
  ASSERT_TRUE(a.settle());
  a.index.acts.push_back({.error = away(), .hangs = false, .took = true});
  a.put(1);
  a.put(2);
  ASSERT_TRUE(a.settle());
  EXPECT_TRUE(a.index.has(1) && a.index.has(2));
  EXPECT_EQ(a.index.older, 0u);
}

TEST(Announcer, what_was_given_up_is_announced_by_the_next_walk) {
  Announcing a;
  a.start();
  ASSERT_TRUE(a.settle());
  for (unsigned i = 0; i < Announcer::tries_most; ++i) a.index.acts.push_back({.error = away()});
  a.index.acts.push_back({.error = Error{ErrorCode::malformed, "no", Side::upstream}});
  a.put(1);
  ASSERT_TRUE(a.run_until([&] { return a.index.acts.empty(); }));
  ASSERT_TRUE(a.run_until([&] { return a.index.has(1); }));
  EXPECT_EQ(a.requests(Said::refused), 1u);
}

TEST(Announcer, a_node_without_a_capability_asks_seldom_and_goes_on_when_it_has_one) {
  Announcing a;
  for (int i = 0; i < 40; ++i)
    a.index.acts.push_back({.error = Error{ErrorCode::unauthorized, "no", Side::upstream}});
  for (std::uint32_t i = 0; i < 10; ++i) a.shelf.objects.insert(numbered(i));
  a.start();
  a.world.run_for(Duration::seconds(300));
  EXPECT_THAT(a.requests(Said::unauthorized), Le(25u));
  EXPECT_GT(a.requests(Said::unauthorized), 5u);
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == 10; }));
}

TEST(Announcer, an_index_that_hangs_holds_up_neither_the_stores_nor_the_end) {
  Announcing a;
  for (int i = 0; i < 100; ++i) a.index.acts.push_back({.hangs = true});
  a.start();
  a.world.run_for(Duration::seconds(1));
  for (std::uint32_t i = 0; i < 10'000; ++i) a.put(i);
  a.world.run_for(Announcer::patience);
  EXPECT_EQ(a.requests(Said::unanswered), 1u);
  EXPECT_GE(a.lag(), Duration::seconds(9));
  a.world.run_for(Duration::seconds(15));
  ASSERT_TRUE(a.run_until([&] { return a.index.under_way == 1; }));
  EXPECT_LE(a.end(), Duration::millis(1));
}

TEST(Announcer, an_announcer_that_waits_ends_at_once) {
  Announcing a;
  a.start();
  ASSERT_TRUE(a.settle());
  a.world.run_for(Duration::seconds(3));
  EXPECT_LE(a.end(), Duration::millis(1));
}

TEST(Announcer, sequences_rise_in_every_batch_and_over_a_restart) {
  Announcing a;
  for (std::uint32_t i = 0; i < 300; ++i) a.shelf.objects.insert(numbered(i));
  std::uint64_t last = 0;
  for (int life = 0; life < 4; ++life) {
    a.start();
    a.put(static_cast<std::uint32_t>(1'000 + life));
    ASSERT_TRUE(a.run_until([&] { return a.index.has(static_cast<std::uint32_t>(1'000 + life)); }));
    (void)a.end();
    for (const auto& batch : std::exchange(a.index.batches, {}))
      for (const auto& record : batch.records) {
        EXPECT_GT(record.sequence, last);
        last = record.sequence;
      }
  }
  EXPECT_EQ(a.index.older, 0u);
}

TEST(Announcer, no_record_of_an_object_that_is_there_expires) {
  for (const std::uint32_t objects : {1u, 1'200u}) {
    Announcing a;
    a.index.checks = false;
    for (std::uint32_t i = 0; i < objects; ++i) a.shelf.objects.insert(numbered(i));
    a.start();
    ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == objects; }));
    for (int i = 0; i < 12; ++i) {
      a.world.run_for(Duration::seconds(600));
      for (const auto& [address, record] : a.index.known)
        EXPECT_GT(record.expiry.ms, a.node.shard().wall().ms + Announcer::life_least.to_millis() / 2);
      for (auto& batch : a.index.batches) batch.records.clear();
    }
  }
}

TEST(Announcer, a_record_of_a_large_store_lives_for_three_walks) {
  for (const auto& [objects, life] : {std::pair(std::uint64_t{1'000'000}, Duration::seconds(6'000)),
                                      {std::uint64_t{1} << 40, Announcer::life_most}}) {
    Announcing a;
    a.shelf.elsewhere = objects;
    a.shelf.objects.insert(numbered(1));
    a.start();
    ASSERT_TRUE(a.run_until([&] { return a.index.has(1); }));
    EXPECT_NEAR(static_cast<double>(a.index.known.at(numbered(1)).expiry.ms - a.node.shard().wall().ms),
                static_cast<double>(life.to_millis()), 1'000);
  }
}

TEST(Announcer, renewal_keeps_its_pace) {
  Announcing a;
  a.index.checks = false;
  for (std::uint32_t i = 0; i < 6'000; ++i) a.shelf.objects.insert(numbered(i));
  a.start();
  ASSERT_TRUE(a.settle());
  a.world.run_for(Duration::seconds(300));
  a.index.batches.clear();
  ASSERT_TRUE(a.run_until([&] { return a.said() >= 4'000; }));
  std::vector<Instant> at;
  for (const auto& batch : a.index.batches)
    if (!batch.records.empty()) at.push_back(batch.at);
  EXPECT_GE(at.back() - at.front(), Duration::millis(5'900));
}

TEST(Announcer, a_change_is_announced_soon_while_everything_is_renewed) {
  Announcing a;
  a.index.checks = false;
  for (std::uint32_t i = 0; i < 6'000; ++i) a.shelf.objects.insert(numbered(i));
  a.start();
  ASSERT_TRUE(a.settle());
  a.world.run_for(Duration::seconds(300));
  a.index.batches.clear();
  ASSERT_TRUE(a.run_until([&] { return a.said() >= 2'000; }));
  const Instant before = a.world.now();
  a.put(50'000);
  ASSERT_TRUE(a.run_until([&] { return a.index.has(50'000); }));
  EXPECT_LE(a.world.now() - before, Duration::millis(100));
}

TEST(Announcer, a_node_that_has_nothing_gives_a_sign_of_life_every_minute) {
  Announcing a;
  a.start();
  a.world.run_for(Duration::seconds(605));
  EXPECT_EQ(a.index.batches.size(), 11u);
  EXPECT_EQ(a.said(), 0u);
}

TEST(Announcer, it_takes_at_most_a_quarter_of_the_time_of_a_flood_of_changes) {
  Announcing a;
  a.index.takes = Duration::millis(100);
  a.start();
  ASSERT_TRUE(a.settle());
  a.index.batches.clear();
  for (std::uint32_t i = 0; i < 4'000; ++i) a.put(i);
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == 4'000; }));
  ASSERT_EQ(a.index.batches.size(), 4u);
  EXPECT_GE(a.index.batches[3].at - a.index.batches[0].at, Duration::millis(1'200));
}

TEST(Announcer, more_than_it_can_say_takes_a_tenth_of_the_time) {
  Announcing a({.capacity = 1'000});
  a.index.checks = false;
  a.index.takes = Duration::millis(100);
  a.start();
  ASSERT_TRUE(a.settle());
  a.index.batches.clear();
  for (std::uint32_t i = 0; i < 4'000; ++i) a.put(i);
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == 4'000; }));
  EXPECT_GE(a.index.batches.back().at - a.index.batches.front().at, Duration::millis(900) * 3);
}

TEST(Announcer, an_object_that_cannot_be_looked_up_is_not_called_gone) {
  Announcing a;
  a.start();
  ASSERT_TRUE(a.settle());
  a.shelf.unreadable.insert(numbered(1));
  a.put(1);
  a.put(2);
  ASSERT_TRUE(a.run_until([&] { return a.index.has(2); }));
  for (const auto& batch : a.index.batches)
    for (const auto& record : batch.records) EXPECT_FALSE(record.is_withdrawal());
  ASSERT_TRUE(a.run_until([&] { return a.index.has(1); }));  // by a walk
}

TEST(Announcer, stores_that_cannot_be_read_are_walked_when_they_can) {
  Announcing a;
  a.shelf.broken = true;
  for (std::uint32_t i = 0; i < 10; ++i) a.shelf.objects.insert(numbered(i));
  a.start();
  a.world.run_for(Duration::seconds(20));
  EXPECT_EQ(a.said(), 0u);
  a.shelf.broken = false;
  ASSERT_TRUE(a.run_until([&] { return a.index.known.size() == 10; }, Duration::seconds(60)));
}

TEST(Announcer, without_an_endpoint_nothing_is_said_rather_than_that_all_is_gone) {
  Shape shape;
  shape.options.endpoints.clear();
  const auto bound = std::make_shared<Bound>(Bound{"0.0.0.0:7410", false});
  const auto machine = std::make_shared<std::vector<IpBytes>>();
  shape.options.bound = bound;
  shape.options.machine_addresses = [machine] { return *machine; };
  Announcing a(shape);
  a.put(1);
  a.start();
  a.world.run_for(Duration::seconds(30));
  EXPECT_THAT(a.index.batches, IsEmpty());
  machine->push_back(*parse_ip("10.0.0.7"));
  ASSERT_TRUE(a.run_until([&] { return a.index.has(1); }, Duration::seconds(120)));
  EXPECT_THAT(a.index.known.at(numbered(1)).endpoints, ElementsAre(*parse_announced("10.0.0.7:7410")));
  // The machine has moved.
  machine->at(0) = *parse_ip("10.0.0.8");
  ASSERT_TRUE(a.run_until(
      [&] { return a.index.known.at(numbered(1)).endpoints.at(0) == *parse_announced("10.0.0.8:7410"); },
      Duration::seconds(1'000)));
}

}  // namespace
}  // namespace cairn::storage
