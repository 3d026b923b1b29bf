// For tests of DHTs: two ways into one network, real or simulated, and the same few acts for all.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/dht.h"
#include "io/entropy.h"
#include "io/local_dht.h"
#include "io/memory.h"
#include "io/real_loop.h"
#include "io/sim/dht.h"
#include "io/sim/world.h"

namespace cairn::io {

inline ErrorCode code_of(const auto& result) { return result ? ErrorCode::ok : result.error().code; }

inline DhtKey sample_key(unsigned number) {
  Address address;
  address.bytes[0] = static_cast<std::byte>(number);
  address.bytes[1] = static_cast<std::byte>(number >> 8);
  return dht_key("test", 7, address);
}

// In order and each once: a network may repeat a value.
inline std::vector<DhtValue> each_once(std::vector<DhtValue> values) {
  std::ranges::sort(values, {}, [](const DhtValue& value) { return std::pair(value.id, value.bytes); });
  const auto repeats = std::ranges::unique(values);
  values.erase(repeats.begin(), repeats.end());
  return values;
}

// A real shard and its machine.
struct RealPlace {
  template <class T>
  T run(Task<T> task) {
    return real.run(std::move(task));
  }
  Call call() { return real.call(); }
  RealLoop real;
  KernelEntropy entropy;
  KernelMemory memory;
  Machine machine{real.loop.shard(), real.loop.slab(),    real.network, real.disk,
                  entropy,           real.loop.mailbox(), real.pool,    memory};
};

// Runs a task of a simulated node to its end.
struct WorldPlace {
  template <class T>
  static Task<> into(Task<T> task, std::optional<T>* out) {
    out->emplace(co_await std::move(task));
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> out;
    {
      ShardScope here(node.shard(shard));
      node.scope(shard).spawn("test", into(std::move(task), &out));
    }
    CHECK(world.run_until([&] { return out.has_value(); }));
    return std::move(*out);
  }
  Call call() { return node.scope(shard).call(); }

  sim::World& world;
  sim::Node& node;
  unsigned shard = 0;
  Machine machine = node.machine(shard);
};

inline DhtOptions options_of(DhtMode mode, std::vector<Endpoint> bootstrap = {}) {
  DhtOptions options;
  options.mode = mode;
  options.network = 7;
  options.bootstrap = std::move(bootstrap);
  return options;
}

// --- settings: where the two ways in come from

// One node within the process, two shards.
struct LocalReal {
  LocalReal() {
    auto opened = places[0].run(LocalDhtMaker().open(places[0].call(), places[0].machine, {}));
    CHECK(opened.has_value());
    node = *opened;
  }
  RealPlace& place(unsigned i) { return places[i]; }
  DhtNode& node_of(unsigned) { return *node; }

  std::array<RealPlace, 2> places;
  std::shared_ptr<DhtNode> node;
};

struct LocalSimulated {
  LocalSimulated() {
    auto opened = places[0].run(LocalDhtMaker().open(places[0].call(), places[0].machine, {}));
    CHECK(opened.has_value());
    node = *opened;
  }
  WorldPlace& place(unsigned i) { return places[i]; }
  DhtNode& node_of(unsigned) { return *node; }

  sim::World world{1};
  sim::Node& machine = world.add_node("a", 2);
  std::array<WorldPlace, 2> places{WorldPlace{world, machine, 0}, WorldPlace{world, machine, 1}};
  std::shared_ptr<DhtNode> node;
};

// Two nodes of a simulated network.
struct Simulated {
  explicit Simulated(sim::SimDhtPlan plan = {}, std::uint64_t seed = 1)
      : world(seed), network(sim::SimDht::make(world.clockwork(), plan)) {
    for (unsigned i = 0; i < 2; ++i) {
      auto opened = places[i].run(network->open(places[i].call(), places[i].machine, joining()));
      CHECK(opened.has_value());
      nodes[i] = *opened;
    }
  }
  static DhtOptions joining() { return options_of(DhtMode::private_network, {{"entry", 4222}}); }
  WorldPlace& place(unsigned i) { return places[i]; }
  DhtNode& node_of(unsigned i) { return *nodes[i]; }

  sim::World world;
  std::shared_ptr<sim::SimDht> network;
  std::array<WorldPlace, 2> places{WorldPlace{world, world.add_node("a")},
                                   WorldPlace{world, world.add_node("b")}};
  std::array<std::shared_ptr<DhtNode>, 2> nodes;
};

// The acts. A get's values are kept in the order of their coming.
template <class Setting>
class DhtTest : public testing::Test {
 protected:
  void SetUp() override {
    for (unsigned i = 0; i < 2; ++i) ports[i] = at.node_of(i).make_port(at.place(i).machine);
  }
  void TearDown() override {
    for (unsigned i = 0; i < 2; ++i) EXPECT_EQ(close(i), ErrorCode::ok);
    for (auto& port : ports) port.reset();
  }
  Result<> put(DhtKey key, DhtValue value, unsigned port = 0) {
    return at.place(port).run(ports[port]->put(at.place(port).call(), key, std::move(value)));
  }
  struct Got {
    Result<DhtOutcome> outcome;
    std::vector<DhtValue> values;
  };
  Got get(DhtKey key, unsigned port = 1, std::size_t enough = 1'000'000) {
    Got got;
    got.outcome = at.place(port).run(ports[port]->get(at.place(port).call(), key, [&](const DhtValue& value) {
      got.values.push_back(value);
      return got.values.size() >= enough;
    }));
    return got;
  }
  ErrorCode close(unsigned port) {
    return code_of(at.place(port).run(at.node_of(port).close(at.place(port).call(), at.place(port).machine)));
  }

  Setting at;
  std::array<std::unique_ptr<Dht>, 2> ports;
};

}  // namespace cairn::io
