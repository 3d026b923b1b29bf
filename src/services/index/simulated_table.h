// For tests: a table of providers, and a DHT within the process, on a simulated node.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/local_dht.h"
#include "io/sim/world.h"
#include "services/index/provider_table.h"
#include "services/index/simulated_targets.h"
#include "store/log_kv.h"

namespace cairn::index {

class SimulatedTable {
 public:
  explicit SimulatedTable(std::uint64_t seed = 1) : world(seed), node(world.add_node("a", 1)) {}
  ~SimulatedTable() {
    stop();
    dht.reset();
    if (dht_node) CHECK(run(dht_node->close(node.scope().call(), machine)));
    dht_node.reset();
    world.stop();
  }

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
  Call call() { return node.scope().call(); }
  WallTime now() { return node.shard().wall(); }

  void open() {
    stop();
    table = std::make_unique<ProviderTable>("table", announced_capacity, maker);
    CHECK(run(table->open(call(), machine, log)));
    if (told) table->on_address(told);
    port = table->make_port(machine);
    tasks_ = std::make_unique<Scope>(node.shard(), node.scope().call());
    tasks_->spawn("keep", table->keep(tasks_->call()));
  }
  // As a process that is killed.
  void stop() {
    if (tasks_) {
      tasks_->cancel(StopReason::draining);
      CHECK(world.run_until([&] { return tasks_->empty(); }));
      tasks_.reset();
    }
    port.reset();
    table.reset();
  }
  void close() {
    tasks_->cancel(StopReason::draining);
    CHECK(world.run_until([&] { return tasks_->empty(); }));
    tasks_.reset();
    port.reset();
    CHECK(run(table->close(call())));
    table.reset();
  }
  io::Dht& open_dht() {
    dht_node = run(io::LocalDhtMaker().open(call(), machine, {.network = 1})).value();
    dht = dht_node->make_port(machine);
    return *dht;
  }

  SignedProvider provider(ProviderParts parts) { return sample_provider(parts, now()); }
  Announced announce(std::vector<SignedProvider> records) {
    return run(port->announce(call(), std::move(records))).value();
  }
  std::vector<KnownProvider> find(unsigned char address = 1) {
    return run(port->find(call(), sample_address(address))).value();
  }

  io::sim::World world;
  io::sim::Node& node;
  io::Machine machine = node.machine(0);
  observe::Logger log;
  store::LogKvMaker maker;
  std::function<void(const Address&)> told;
  std::unique_ptr<ProviderTable> table;
  std::unique_ptr<ProviderPort> port;
  std::shared_ptr<io::DhtNode> dht_node;
  std::unique_ptr<io::Dht> dht;

 private:
  std::unique_ptr<Scope> tasks_;
};

}  // namespace cairn::index
