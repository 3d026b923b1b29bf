// For tests of maps: a map on a real shard or on a simulated one, and the same few acts for both.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/entropy.h"
#include "io/memory.h"
#include "io/real_loop.h"
#include "io/sim/world.h"
#include "store/memory_kv.h"

namespace cairn::store {

using Contents = std::map<std::string, std::string>;

inline ErrorCode code_of(const auto& result) { return result ? ErrorCode::ok : result.error().code; }
inline void apply_to(const KvBatch& batch, Contents& to) {
  for (const auto& [key, value] : batch.changes())
    if (value)
      to[key] = *value;
    else
      to.erase(key);
}
inline KvBatch batch_of(std::vector<std::pair<std::string, std::string>> pairs) {
  KvBatch batch;
  for (auto& [key, value] : pairs) batch.put(key, value);
  return batch;
}
inline std::string numbered(std::string_view prefix, std::size_t number) {
  std::string text = std::to_string(number);
  return std::string(prefix) + std::string(8 - text.size(), '0') + text;
}

// A real shard and its machine.
struct RealShard {
  template <class T>
  T run(Task<T> task) {
    return real.run(std::move(task));
  }
  Call call() { return real.call(); }
  io::RealLoop real;
  io::KernelEntropy entropy;
  io::KernelMemory memory;
  io::Machine machine{real.loop.shard(), real.loop.slab(),    real.network, real.disk,
                      entropy,           real.loop.mailbox(), real.pool,    memory};
};

// --- where the suite runs: two shards and a place for the map

template <class Maker>
struct OnDisk {
  static constexpr bool keeps = !std::is_same_v<Maker, MemoryKvMaker>;
  template <class T>
  T run(unsigned shard, Task<T> task) {
    return shards[shard].run(std::move(task));
  }
  Call call(unsigned shard) { return shards[shard].call(); }
  io::Machine& machine(unsigned shard) { return shards[shard].machine; }
  std::string path() const { return directory.at("map"); }

  Maker maker;
  io::TemporaryDirectory directory;
  std::array<RealShard, 2> shards;
};

template <class Maker>
struct Simulated {
  static constexpr bool keeps = !std::is_same_v<Maker, MemoryKvMaker>;
  template <class T>
  static Task<> into(Task<T> task, std::optional<T>* out) {
    out->emplace(co_await std::move(task));
  }
  template <class T>
  T run(unsigned shard, Task<T> task) {
    std::optional<T> out;
    node.scope(shard).spawn("test", into(std::move(task), &out));
    CHECK(world.run_until([&] { return out.has_value(); }));
    return std::move(*out);
  }
  Call call(unsigned shard) { return node.scope(shard).call(); }
  io::Machine& machine(unsigned shard) { return *machines[shard]; }
  // Precondition: nothing of the program is alive.
  void cut_power() {
    world.crash(node);
    world.restart(node);
    for (unsigned i = 0; i < 2; ++i) machines[i].emplace(node.machine(i));
  }
  std::string path() const { return "/map"; }

  Maker maker;
  io::sim::World world{1};
  io::sim::Node& node = world.add_node("a", 2);
  std::array<std::optional<io::Machine>, 2> machines{node.machine(0), node.machine(1)};
};

template <class Setting>
class KvTest : public testing::Test {
 protected:
  using Found = std::optional<std::string>;

  void SetUp() override { open(); }
  void TearDown() override {
    if (engine != nullptr) close();
  }
  ErrorCode try_open() {
    auto opened = at.run(0, at.maker.open(at.call(0), at.machine(0), at.path()));
    if (!opened) return opened.error().code;
    engine = std::move(*opened);
    for (unsigned i = 0; i < 2; ++i) ports[i] = engine->make_port(at.machine(i));
    return ErrorCode::ok;
  }
  void open() { ASSERT_EQ(try_open(), ErrorCode::ok); }
  void close() {
    for (auto& port : ports) port.reset();
    EXPECT_EQ(code_of(at.run(0, engine->close(at.call(0), at.machine(0)))), ErrorCode::ok);
    engine.reset();
  }
  // As a process that dies, as far as the engine can tell.
  void drop() {
    for (auto& port : ports) port.reset();
    engine.reset();
  }
  ErrorCode write(KvBatch batch, unsigned shard = 0) {
    return code_of(at.run(shard, ports[shard]->write(at.call(shard), std::move(batch))));
  }
  ErrorCode put(std::string key, std::string value, unsigned shard = 0) {
    return write(batch_of({{std::move(key), std::move(value)}}), shard);
  }
  Result<Found> get(std::string key, unsigned shard = 0) {
    return at.run(shard, ports[shard]->get(at.call(shard), std::move(key)));
  }
  Result<Contents> scan(std::string from, std::string until, std::size_t limit = 1'000'000) {
    TRY(auto pairs, at.run(0, ports[0]->scan(at.call(0), std::move(from), std::move(until), limit)));
    Contents out;
    for (KvPair& pair : pairs) {
      if (!out.empty()) EXPECT_LT(out.rbegin()->first, pair.key);
      out[pair.key] = pair.value;
    }
    return out;
  }
  Contents all() {
    auto found = scan("", "\xff");
    EXPECT_TRUE(found.has_value());
    return found ? *found : Contents{};
  }
  ErrorCode flush() { return code_of(at.run(0, ports[0]->flush(at.call(0)))); }
  ErrorCode destroy() { return code_of(at.run(0, at.maker.destroy(at.call(0), at.machine(0), at.path()))); }

  Setting at;
  std::shared_ptr<KvEngine> engine;
  std::array<std::unique_ptr<Kv>, 2> ports;
};

}  // namespace cairn::store
