// For tests: a small service on a node of a simulated world, with its log and its metrics.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/load.h"
#include "io/sim/guest.h"
#include "runtime/wait.h"
#include "serve/node.h"

namespace cairn::serve {

// What the routes do, and what the tests look at.
struct SampleState {
  Slab* slab = nullptr;
  codec::DecodeGuard guard;
  std::optional<Error> denial;  // of `guarded`
  int started = 0, ended = 0, started_late = 0, applied = 0;
  std::vector<StopReason> stops;
};

enum SampleRoute : http::RouteId {
  route_now,
  route_job,
  route_echo,
  route_throw,
  route_throw_now,
  route_guarded,
  route_fail,
  route_later
};

inline constexpr RouteSpec sample_routes[] = {
    {{route_now, http::Method::get | http::Method::head, "/now/{name:Segment}"}, Run::at_once, false, ""},
    {{route_job, http::Method::get | http::Method::post, "/job/{ms:Int}"}, Run::queued, true, ""},
    {{route_echo, http::Method::post, "/echo"}, Run::queued, true, ""},
    {{route_throw, http::Method::get, "/throw"}, Run::queued, false, ""},
    {{route_throw_now, http::Method::get, "/throw-now"}, Run::at_once, false, ""},
    {{route_guarded, http::Method::post, "/guarded"}, Run::queued, true, "sample.write"},
    {{route_fail, http::Method::get, "/fail/{code:Name}"}, Run::queued, false, ""},
    {{route_later, http::Method::get, "/later"}, Run::at_once, false, ""},
};

inline constexpr TaskDeclaration sample_tasks[] = {
    {"listener", "listener", "one per shard", Criticality::essential, "accepts", "the shard"},
    {"connection", "connection", "one per connection", Criticality::essential, "answers", "the shard"},
    {"worker", "worker", "one per shard", Criticality::essential, "runs what was queued", "the supervisor"},
    {"event-log", "observer", "one per shard", Criticality::degrading, "logs events", "the supervisor"},
};
inline constexpr QueueDeclaration sample_queues[] = {
    {"work", QueueKind::mpsc, 512, {"connection"}, {"worker"}, OverflowPolicy::refuse, "queue_depth"},
    {"events",
     QueueKind::broadcast,
     events_capacity,
     {"supervisor"},
     {"event-log"},
     OverflowPolicy::drop_oldest,
     "bus_lagged_total"},
};
inline constexpr ServiceDeclaration sample_declaration{.name = "sample",
                                                       .purpose = "A service for tests.",
                                                       .owner = "tests",
                                                       .last_reviewed = "2026-01-01",
                                                       .drain = Duration::seconds(3),
                                                       .tasks = sample_tasks,
                                                       .queues = sample_queues,
                                                       .locks = {},
                                                       .writers = {}};

class SampleShard final : public ServiceShard {
 public:
  explicit SampleShard(SampleState& state) : state_(state) {}

  bool try_answer(http::Exchange& exchange) override {
    if (exchange.route.id == route_throw_now) throw std::runtime_error("at once");
    if (exchange.route.id == route_later) return false;
    exchange.response.text = exchange.route.at[0].text;
    exchange.response.answer_text("text/plain");
    return true;
  }
  Task<Result<>> handle(Call call, http::Exchange& exchange) override {
    ++state_.started;
    if (call.expired()) ++state_.started_late;
    exchange.response.add_field("X-Half", "done");  // an error must not carry it
    exchange.response.text = "done";
    switch (exchange.route.id) {
      case route_throw:
        throw std::runtime_error("the handler's reason");
      case route_fail:
        co_return fail(*find_error_code(exchange.route.at[0].text), "asked for");
      case route_job: {
        const auto ms = static_cast<std::int64_t>(exchange.route.at[0].number);
        if (auto slept = co_await sleep_for(call, Duration::millis(ms)); !slept) {
          state_.stops.push_back(slept.error().stop);
          co_return slept;
        }
        break;
      }
      case route_echo: {
        Body body(exchange, *state_.slab, state_.guard);
        CO_TRY(exchange.response.text, co_await body.read_all(call, std::size_t{1} << 24));
        break;
      }
      default:
        break;
    }
    ++state_.ended;
    exchange.response.answer_text("text/plain");
    co_return Result<>{};
  }
  Result<> authorize(http::Exchange&, std::string_view) override {
    if (state_.denial) return fail(*state_.denial);
    return {};
  }
  void apply(const config::Snapshot&) override { ++state_.applied; }

 private:
  SampleState& state_;
};

class SampleService final : public Service {
 public:
  const ServiceDeclaration& declaration() const override { return sample_declaration; }
  std::span<const RouteSpec> routes() const override { return sample_routes; }
  std::vector<GateDeclaration> gates() const override { return {{"store"}, {"bus", false}}; }
  std::unique_ptr<ServiceShard> make_shard(ShardContext context) override {
    state.slab = &context.machine.slab;
    return std::make_unique<SampleShard>(state);
  }
  SampleState state;
};

inline std::string get(std::string_view path, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: h\r\n{}\r\n", path, more);
}
inline std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
  return fmt::format("POST {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n{}\r\n{}", path, body.size(), more,
                     body);
}

using SettingTexts = std::vector<std::pair<std::string, std::string>>;

class SimulatedNode {
 public:
  struct Shape {
    unsigned shards = 1;
    std::size_t workers = 1;
    std::uint64_t seed = 1;
    std::uint16_t health_port = 0;  // of a listener for health only; 0: none
  };
  SimulatedNode() : SimulatedNode(SettingTexts{}) {}
  explicit SimulatedNode(SettingTexts settings) : SimulatedNode(std::move(settings), Shape()) {}
  SimulatedNode(SettingTexts settings, Shape shape)
      : world(shape.seed),
        host(world.add_node("host", shape.shards)),
        away(world.add_node("away")),
        log({.slots = shape.shards}, [this] { return host.shard().wall(); }),
        snapshot(load(std::move(settings))),
        node(*new_node(shape)) {
    service.state.guard = node.settings().decode;
    for (unsigned i = 0; i < shape.shards; ++i) {
      machines_.push_back(host.machine(i));
      node.attach(machines_.back());
      CHECK(node.listen(i, {"host", port, {}}).has_value());
      if (shape.health_port != 0) CHECK(node.listen(i, {"host", shape.health_port, {}}, true).has_value());
      node.start(i);
    }
    for (const char* gate : {"config", "listener", "store", "bus"}) node.health().set(gate, true);
  }
  ~SimulatedNode() {
    if (results.empty()) drain(Duration::millis(1));
    world.run_until([&] { return results.size() == host.shards(); });
    {
      ShardScope here(host.shard());
      node_.reset();
    }
    world.stop();
  }
  SimulatedNode(const SimulatedNode&) = delete;
  SimulatedNode& operator=(const SimulatedNode&) = delete;

  static constexpr std::uint16_t port = 80;
  io::sim::Guest connect() { return io::sim::Guest(world, away, {"host", port, {}}); }
  void drain(Duration within) {
    for (unsigned i = 0; i < host.shards(); ++i) {
      ShardScope here(host.shard(i));
      node.drain(i, host.shard(i).now() + within,
                 [this](DrainResult result) { results.push_back(std::move(result)); });
    }
  }
  void abort() {
    for (unsigned i = 0; i < host.shards(); ++i) {
      ShardScope here(host.shard(i));
      node.abort(i);
    }
  }
  void apply(SettingTexts settings) {
    snapshot = load(std::move(settings));
    node.apply_limits(*snapshot);
    for (unsigned i = 0; i < host.shards(); ++i) {
      ShardScope here(host.shard(i));
      node.apply(i, snapshot);
    }
  }
  std::string metrics() const {
    std::string text;
    node.registry().expose(text);
    return text;
  }
  // The value printed for exactly this cell; 0 when it is not printed.
  double metric(std::string_view cell) const {
    const std::string text = "\n" + metrics();
    const std::size_t at = text.find(fmt::format("\n{} ", cell));
    return at == std::string::npos ? 0 : std::stod(text.substr(at + cell.size() + 2));
  }
  std::string logged() {
    std::string text;
    log.drain([&](std::string_view lines) {
      text += lines;
      return true;
    });
    return text;
  }

  io::sim::World world;
  io::sim::Node& host;
  io::sim::Node& away;
  SampleService service;
  observe::Log log;
  config::Schema schema;
  config::ServerKeys keys = config::declare_server_keys(schema, {});
  config::SnapshotPtr snapshot;
  std::vector<DrainResult> results;  // one for each shard that has drained

 private:
  config::SnapshotPtr load(SettingTexts settings) {
    config::Sources sources;
    for (auto& [key, value] : settings) sources.settings.push_back({key, value});
    sources.settings.push_back({"safety.danger_ok", "true"});
    auto loaded = config::load(schema, sources);
    if (!loaded) throw std::runtime_error(config::format_problems(loaded.error()));
    return *loaded;
  }
  Node* new_node(const Shape& shape) {
    ShardScope here(host.shard());
    node_ = std::make_unique<Node>(service, snapshot, keys, log, BuildInfo{"1.2.3", "abc", "debug"},
                                   shape.shards, shape.workers);
    return node_.get();
  }

  std::deque<io::Machine> machines_;
  std::unique_ptr<Node> node_;

 public:
  Node& node;
};

}  // namespace cairn::serve
