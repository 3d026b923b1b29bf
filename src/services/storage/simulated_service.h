// For tests: the storage service on a node of a simulated world, asked over its network. Its index is the one
// for simulated disks. The node can be crashed, started again and drained.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/load.h"
#include "crypto/blake3.h"
#include "io/sim/guest.h"
#include "io/sim/world.h"
#include "runtime/wait.h"
#include "serve/lifecycle.h"
#include "services/storage/service.h"
#include "store/log_kv.h"

namespace cairn::storage {

inline std::string address_of(std::string_view bytes) {
  return format_address(crypto::hash_object(as_bytes(bytes)));
}
inline std::string request(std::string_view method, std::string_view target, std::string_view body = {},
                           std::string_view more = {}) {
  return fmt::format("{} {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n{}\r\n{}", method, target,
                     body.size(), more, body);
}
inline std::string put(std::string_view bytes, std::string_view more = {}) {
  return request("PUT", "/o/" + address_of(bytes), bytes, more);
}
inline std::string get(std::string_view bytes, std::string_view more = {}) {
  return fmt::format("GET /o/{} HTTP/1.1\r\nHost: h\r\n{}\r\n", address_of(bytes), more);
}

class SimulatedService {
 public:
  // A service that calls storage, in the same process.
  struct Beside {
    std::uint16_t port = 0;
    std::function<std::unique_ptr<serve::Service>()> make = {};  // none: storage is alone
  };
  struct Shape {
    unsigned shards = 1;
    std::size_t workers = 4;
    std::uint64_t seed = 1;
    std::vector<std::pair<std::string, std::string>> settings = {};
    std::vector<std::string> directories = {"data"};
    serve::KeySnapshotPtr keys = {};  // none: open access
    std::uint64_t uploads_max = Options().uploads_max;
    Beside beside = {};
  };
  SimulatedService() : SimulatedService(Shape{}) {}
  explicit SimulatedService(Shape shape)
      : world(shape.seed),
        shape_(std::move(shape)),
        host(world.add_node("host", shape_.shards, [this](io::sim::Node& node) { boot(node); })),
        away(world.add_node("away")) {
    CHECK(world.run_until([this] { return serving; }));
  }
  ~SimulatedService() { world.stop(); }
  SimulatedService(const SimulatedService&) = delete;
  SimulatedService& operator=(const SimulatedService&) = delete;

  io::sim::Guest connect() { return io::sim::Guest(world, away, {"host", 80, {}}); }
  // Asks on a new connection.
  io::sim::Answer ask(std::string_view text) { return connect().ask(text); }
  io::sim::SimDisk& disk() { return host.disk(); }
  store::LogKvMaker& maps() { return kv_; }
  std::int64_t inflight() {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < life_->service->routes().size(); ++i)
      sum += life_->node.metrics().inflight.at(i).value();
    return sum;
  }

  // Connections that storage has had, over all its shards.
  std::uint64_t connections_ever() {
    serve::Metrics& metrics = life_->node.metrics();
    return metrics.tasks_spawned.at(metrics.kind_index("connection")).value();
  }

  std::string metrics() {
    std::string text;
    life_->node.series().expose(text);
    return text;
  }

  // Crashes the process, or cuts the power, and starts it again.
  void crash(io::sim::Crash how = io::sim::Crash::power) {
    crash_and([] {}, how);
    CHECK(serving);
  }
  // The same; `meanwhile` may change the disk. Returns when the service serves again or has given up.
  void crash_and(const std::function<void()>& meanwhile, io::sim::Crash how = io::sim::Crash::power) {
    life_ = nullptr;
    serving = false;
    outcome.reset();
    world.crash(host, how);
    meanwhile();
    world.restart(host);
    CHECK(world.run_until([this] { return serving || outcome.has_value(); }));
  }
  // The directory that could not be opened.
  std::string trouble() const { return life_->service->trouble(); }
  void drain(Duration within) {
    ShardScope here(host.shard());
    life_->lifecycle->end(within);
  }

  io::sim::World world;
  bool serving = false;
  std::optional<serve::LifecycleOutcome> outcome;  // when a drain has ended

 private:
  // The objects of one process.
  struct Life {
    Life(SimulatedService& owner, io::sim::Node& home)
        : log({.slots = home.shards()}, [] { return WallTime{}; }),
          service(make_service(owner.options(), owner.kv_, owner.keys_)),
          node(*service, owner.load(), owner.keys_.server, log, {"0", "0", "test"}, home.shards(),
               owner.shape_.workers, owner.access(), &bus) {
      std::vector<serve::Node*> nodes{&node};
      machines.reserve(home.shards());
      for (unsigned i = 0; i < home.shards(); ++i) {
        machines.push_back(home.machine(i));
        node.attach(machines.back());
        CHECK(node.listen(i, {"host", 80, {}}).has_value());
      }
      if (owner.shape_.beside.make) nodes.push_back(make_beside(owner.shape_.beside));
      for (unsigned i = 0; i < home.shards(); ++i) {
        for (serve::Node* each : nodes) each->start(i);
        ShardScope here(home.shard(i));
        home.scope(i).spawn("reaper", reap(home.scope(i).call(), i));
      }
      for (serve::Node* each : nodes) each->health().set("config", true);
      lifecycle = std::make_unique<serve::Lifecycle>(
          nodes, serve::LifecycleEvents{.serving = [&owner] { owner.serving = true; }, .drained = {}});
      home.scope(0).spawn("life", live(home.scope(0).call(), owner));
    }
    serve::Node* make_beside(const Beside& beside) {
      caller_keys = config::declare_server_keys(caller_schema, {});
      caller = beside.make();
      caller_node = std::make_unique<serve::Node>(
          *caller, *config::load(caller_schema, {}), caller_keys, log, serve::BuildInfo{"0", "0", "test"},
          static_cast<unsigned>(machines.size()), 4, serve::Access{.open = true}, &bus);
      for (unsigned i = 0; i < machines.size(); ++i) {
        const serve::PeerTarget storage{"storage", &node.answerer(i)};
        caller_node->attach(machines[i], std::span(&storage, 1));
        CHECK(caller_node->listen(i, {"host", beside.port, {}}).has_value());
      }
      return caller_node.get();
    }
    // The nodes' own scopes are roots, so the end of the machine does not reach them. This task ends them.
    Task<> reap(Call call, unsigned shard) {
      (void)co_await sleep_until(call, Instant::never());
      for (serve::Node* each : {caller_node.get(), &node}) {
        if (each == nullptr) continue;
        each->drain(shard, current_shard()->now(), [](DrainResult) {});
        each->cut_off(shard);
      }
    }
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): it outlives the world
    Task<> live(Call call, SimulatedService& owner) {
      auto ended = co_await lifecycle->run(call);
      if (ended) owner.outcome = std::move(*ended);
    }

    observe::Log log;
    serve::ProcessBus bus;
    std::unique_ptr<serve::Service> service;
    std::vector<io::Machine> machines;
    serve::Node node;
    config::Schema caller_schema;
    config::ServerKeys caller_keys;
    std::unique_ptr<serve::Service> caller;
    std::unique_ptr<serve::Node> caller_node;
    std::unique_ptr<serve::Lifecycle> lifecycle;
  };

  serve::Access access() const {
    if (!shape_.keys) return {.open = true};
    return {.open = false, .keys = shape_.keys, .revoke = [](Call, std::string) -> Task<Result<>> {
              co_return Result<>{};
            }};
  }
  void boot(io::sim::Node& node) { life_ = &node.make<Life>(*this, node); }
  Options options() const {
    Options made;
    made.data_dirs = shape_.directories;
    made.segment_size = 8u << 20;
    made.cache_bytes = 1u << 20;
    made.reserve = 0;
    made.spare_files = 0;
    made.uploads_max = shape_.uploads_max;
    return made;
  }
  config::SnapshotPtr load() const {
    config::Sources sources;
    for (const auto& [key, value] : shape_.settings) sources.settings.push_back({key, value});
    sources.settings.push_back({"safety.danger_ok", "true"});
    auto loaded = config::load(schema_, sources);
    CHECK(loaded.has_value());
    return *loaded;
  }

  config::Schema schema_;
  Keys keys_ = declare_keys(schema_);
  store::LogKvMaker kv_;
  Life* life_ = nullptr;
  Shape shape_;

 public:
  io::sim::Node& host;
  io::sim::Node& away;
};

}  // namespace cairn::storage
