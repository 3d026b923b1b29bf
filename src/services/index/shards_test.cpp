// Cache, breakers and flights with a thread for each shard, as in a process: what the simulated world cannot
// show, because one thread runs it.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "services/index/cache.h"
#include "services/index/flights.h"
#include "services/index/simulated_targets.h"

namespace cairn::index {
namespace {

constexpr unsigned shards = 3;
constexpr int rounds = 300, questions = 8;

// A shard with its mail, run by a thread that blocks on the bell.
struct Place {
  explicit Place(unsigned index) : shard(index) {}
  Guarded<int, 0> rings{0};
  Condition bell;
  Shard shard;
  Mailbox mailbox{[this] {
    rings.with([](int& count) { ++count; });
    bell.notify_all();
  }};
  Scope tasks{shard}, askers{shard};

  void settle() {
    {
      const ShardScope here(shard);
      mailbox.drain();
    }
    while (!shard.idle()) shard.run_one();
  }
  template <class Done>
  void run_until(Done done) {
    while (!done()) {
      settle();
      if (done() || !shard.idle() || !mailbox.arm()) continue;
      rings.wait(bell, [](int& count) { return count > 0; }, [](int& count) { --count; });
    }
  }
};

struct Process {
  std::array<Place, shards> places{Place{0}, Place{1}, Place{2}};
  std::atomic<unsigned> done{0};
  std::atomic<int> lookups{0}, answers{0}, found{0};
  std::optional<Cache> cache;
  std::optional<BreakerTable> breakers;
  std::optional<Flights> flights;

  Process() {
    const ShardScope here(places[0].shard);
    cache.emplace(places[0].shard, places[0].mailbox, CachePolicy{.entries = 4, .purge_interval = {}}, 7);
    breakers.emplace(places[0].shard, places[0].mailbox, BreakerRules{});
    flights.emplace(FlightLimits{}, 7);
    for (Place& place : places)
      flights->attach(place.shard, place.mailbox, [this, &place](Call call, Question question) {
        return work(call, std::move(question), &place);
      });
  }
  ~Process() {
    for (Place& place : places) place.settle();
    for (Place& place : places) place.settle();
  }

  Task<Result<FindingPtr>> work(Call call, Question question, Place* place) {
    ++lookups;
    const std::uint64_t generation = cache->generation();
    auto attempt = breakers->try_begin("dht", place->mailbox);
    co_await yield(call);
    if (attempt) attempt->end(lookups % 3 != 0);
    auto finding = std::make_shared<const Finding>(sample, Waves{});
    (void)cache->learn(question, finding->answer, generation, place->mailbox);
    if (lookups % 50 == 0) cache->forget_all();
    co_return finding;
  }
  Task<> ask(Call call, Place* place) {
    for (int i = 0; i < rounds; ++i) {
      const Question question = "n/" + std::to_string(i % questions);
      if (cache->find(question, place->shard.now())) ++found;
      const auto answer = co_await flights->ask(call, question, place->mailbox);
      if (answer && (*answer)->answer.changes.size() == 1) ++answers;
    }
  }
  void run(unsigned index) {
    Place& place = places[index];
    place.tasks.spawn("dispatcher", flights->run(place.tasks.call()));
    if (index == 0) {
      place.tasks.spawn("cache_janitor", cache->run(place.tasks.call()));
      place.tasks.spawn("breaker_janitor", breakers->run(place.tasks.call()));
    }
    for (int i = 0; i < 2; ++i) place.askers.spawn("asker", ask(place.askers.call(), &place));
    place.run_until([&] { return place.askers.empty(); });
    ++done;
    for (Place& other : places) ASSERT_TRUE(other.mailbox.try_post_call([] {}));
    place.run_until([&] { return done == shards; });
    {
      const ShardScope here(place.shard);
      place.tasks.cancel(StopReason::draining);
    }
    place.run_until([&] { return place.tasks.empty(); });
  }

  Answer sample = sample_answer(sample_change());
};

TEST(Shards, that_are_threads_share_flights_cache_and_breakers) {
  Process process;
  std::array<std::thread, shards> threads;
  for (unsigned i = 0; i < shards; ++i) threads[i] = std::thread([&process, i] { process.run(i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(process.answers, static_cast<int>(shards) * 2 * rounds);
  EXPECT_LT(process.lookups, process.answers);
  EXPECT_GT(process.found, 0);
  EXPECT_EQ(process.flights->flying(), 0u);
  EXPECT_LE(process.cache->size(), 4u);
}

}  // namespace
}  // namespace cairn::index
