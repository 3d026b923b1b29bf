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
#include "http/sse.h"
#include "io/sim/guest.h"
#include "runtime/wait.h"
#include "serve/lifecycle.h"
#include "serve/open.h"
#include "serve/root_keys.h"
#include "serve/shared_rows.h"
#include "serve/sizes.h"

namespace cairn::serve {

// The knobs that the routes obey, and the state that the tests look at.
struct SampleState {
  Slab* slab = nullptr;
  codec::DecodeGuard guard;
  int started = 0, ended = 0, started_late = 0, applied = 0;
  int staging = 0, staged = 0;              // bodies coming in, and kept
  int open = 0;                             // requests that wait for the version to change
  Watch<std::uint64_t>* version = nullptr;  // of the last shard, as is its bus
  Bus* bus = nullptr;
  std::vector<StopReason> stops;
  // State of the service as a whole.
  Duration start_takes{}, stop_takes{};
  std::optional<Error> start_fails;
  unsigned failing_shard = 0;
  std::vector<std::string> life;     // events, with the shard's number
  std::vector<std::string> refused;  // before the service got them: operation, reason, is the bearer known
};

// A body that was staged.
struct SampleBody {
  SampleBody() = default;
  SampleBody(const SampleBody&) = delete;
  SampleBody& operator=(const SampleBody&) = delete;
  ~SampleBody() {
    if (state != nullptr) --state->staged;
  }
  void begin(SampleState& of) {
    state = &of;
    ++state->staged;
  }
  SampleState* state = nullptr;
  std::string text;
};

// Each version as an event, from the present one on.
class SampleFeed final : public http::EventFeed {
 public:
  SampleFeed(SampleState& state, Watch<std::uint64_t>& version) : state_(state), seen_(version.subscribe()) {
    ++state_.open;
  }
  ~SampleFeed() override { --state_.open; }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the stream keeps it
  Task<Result<More>> next(Call call, std::string& out) override {
    if (!std::exchange(first_, false)) {
      auto changed = co_await seen_.changed(call);
      if (!changed) state_.stops.push_back(changed.error().stop);
      CO_TRY_VOID(changed);
    }
    http::append_event(out, "version", fmt::format("{}", seen_.get()), "{}");
    co_return More::yes;
  }

 private:
  SampleState& state_;
  Watch<std::uint64_t>::Receiver seen_;
  bool first_ = true;
};

inline constexpr SharedRows sample_rows{.workers = "one per shard"};
inline constexpr TaskDeclaration sample_own_tasks[] = {
    {"sweeper", "sweeper", "one per shard", Criticality::degrading, "sweeps", "the supervisor"},
};
inline constexpr auto sample_tasks = join(shared_tasks(sample_rows), sample_own_tasks);
inline constexpr char sample_refusal[] = "asked for";
inline constexpr QueueDeclaration sample_own_queues[] = {
    {"jobs",
     QueueKind::mpsc,
     1,
     {"worker"},
     {"sweeper"},
     OverflowPolicy::refuse,
     "queue_depth",
     sample_refusal},
};
inline constexpr auto sample_queues = join(shared_queues(sample_rows), sample_own_queues);
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
  SampleShard(SampleState& state, ShardContext context)
      : state_(state),
        index_(context.machine.shard.index()),
        tasks_(context.tasks),
        version_(context.machine.shard, 0) {
    state_.version = &version_;
    state_.bus = &context.bus;
  }

  Task<Result<>> start(Call call) override {
    note("start");
    CO_TRY_VOID(co_await sleep_for(call, state_.start_takes));
    if (state_.start_fails && index_ == state_.failing_shard) co_return fail(*state_.start_fails);
    CO_TRY_VOID(tasks_.start("sweeper", [this](Call background) { return sweep(background); }));
    note("started");
    co_return Result<>{};
  }
  Task<> stop(Call call) override {
    note("stop");
    note(co_await sleep_for(call, state_.stop_takes) ? "stopped" : "stop cut off");
  }
  void refused(const Request& request, std::string_view op, const Error& error) override {
    state_.refused.push_back(
        fmt::format("{} {}{}", op, name_of(error.code), request.principal() != nullptr ? " known" : ""));
  }
  void apply(const config::Snapshot&) override { ++state_.applied; }
  static std::span<const RouteSpec> routes();

 private:
  // --- at once
  void tell_name(Request& request) {
    request.response.text = request.route.at[0].text;
    request.response.answer_text("text/plain");
  }
  void throw_now(Request&) { throw std::runtime_error("at once"); }
  bool leave_it(Request&) { return false; }

  // --- staged
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
  Task<Result<>> take_text(Call call, Request& request, SampleBody& into) {
    into.begin(state_);
    Body body(request, *state_.slab, state_.guard);
    ++state_.staging;
    auto text = co_await body.read_all(call, std::size_t{1} << 24);
    --state_.staging;
    if (!text) {
      state_.stops.push_back(text.error().stop);
      co_return fail(text.error());
    }
    into.text = std::move(*text);
    co_return Result<>{};
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
  Task<Result<>> throw_taking(Call, Request&, SampleBody&) {
    throw std::runtime_error("the stage's reason");
    co_return Result<>{};
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
  Task<Result<>> give_back(Call call, Request& request, SampleBody& body) {
    begin_work(call, request);
    CO_TRY_VOID(co_await sleep_for(call, Duration::millis(1)));
    co_return end_work(request, body.text);
  }

  // --- on a worker
  void begin_work(const Call& call, Request& request) {
    ++state_.started;
    if (call.expired()) ++state_.started_late;
    request.response.add_field("X-Half", "done");  // an error must not carry it
    request.response.text = "half";
  }
  Result<> end_work(Request& request, std::string text) {
    ++state_.ended;
    request.response.text = std::move(text);
    request.response.answer_text("text/plain");
    return {};
  }
  Task<Result<>> work(Call call, Request& request) {
    begin_work(call, request);
    co_return end_work(request, "done");
  }
  Task<Result<>> throw_working(Call call, Request& request) {
    begin_work(call, request);
    throw std::runtime_error("the handler's reason");
    co_return Result<>{};
  }
  Task<Result<>> fail_as_asked(Call call, Request& request) {
    begin_work(call, request);
    co_return fail(*find_error_code(request.route.at[0].text), sample_refusal);
  }
  Task<Result<>> sleep(Call call, Request& request) {
    begin_work(call, request);
    const auto ms = static_cast<std::int64_t>(request.route.at[0].number);
    if (auto slept = co_await sleep_for(call, Duration::millis(ms)); !slept) {
      state_.stops.push_back(slept.error().stop);
      co_return slept;
    }
    co_return end_work(request, "done");
  }
  Task<Result<>> echo(Call call, Request& request) {
    begin_work(call, request);
    Body body(request, *state_.slab, state_.guard);
    CO_TRY(std::string text, co_await body.read_all(call, std::size_t{1} << 24));
    co_return end_work(request, std::move(text));
  }

  // --- open
  void stream_versions(Request& request) {
    http::answer_events(request.response, std::make_unique<SampleFeed>(state_, version_));
  }
  bool try_poll(Request& request) {
    if (version_.value() == 0) return false;
    tell_version(request);
    return true;
  }
  // Up to `ms` for a new version; the present one is told when the time is up.
  Task<Result<>> poll(Call call, Request& request) {
    request.response.add_field("X-Half", "done");  // an error must not carry it
    const auto ms = static_cast<std::int64_t>(request.route.at[0].number);
    if (ms == 13) throw std::runtime_error("the wait's reason");
    Watch<std::uint64_t>::Receiver seen = version_.subscribe();
    ++state_.open;
    // Waits longer than is allowed, like a service that waits on its own.
    Result<> error;
    if (ms > open_wait_max.to_millis()) {
      error = co_await seen.changed(call);
    } else if (auto waited = co_await wait_open(call, seen.changed_arm(), Duration::millis(ms)); !waited) {
      error = fail(waited.error());
    }
    --state_.open;
    if (!error) {
      state_.stops.push_back(error.error().stop);
      co_return error;
    }
    tell_version(request);
    co_return Result<>{};
  }
  void tell_version(Request& request) {
    request.response.text = fmt::format("{}", version_.value());
    request.response.answer_text("text/plain");
  }

  void note(std::string_view what) { state_.life.push_back(fmt::format("{} {}", what, index_)); }
  Task<> sweep(Call call) {
    (void)co_await sleep_until(call, Instant::never());
    note("swept");
  }

  SampleState& state_;
  unsigned index_;
  Supervisor& tasks_;
  Watch<std::uint64_t> version_;
};

inline std::span<const RouteSpec> SampleShard::routes() {
  using http::Method;
  using Self = SampleShard;
  static constexpr RouteSpec table[] = {
      {.pattern = "/now/{name:Segment}",
       .methods = Method::get | Method::head,
       .summary = "Tell a name",
       .handlers = at_once<&Self::tell_name>()},
      {.pattern = "/job/{ms:Int}",
       .methods = Method::get | Method::post,
       .summary = "Sleep",
       .handlers = queued<&Self::sleep>(),
       .takes = Takes::body},
      {.pattern = "/echo",
       .methods = Method::post,
       .summary = "Give back what came",
       .handlers = queued<&Self::echo>(),
       .takes = Takes::body},
      {.pattern = "/throw",
       .methods = Method::get,
       .summary = "Throw in a worker",
       .handlers = queued<&Self::throw_working>()},
      {.pattern = "/throw-now",
       .methods = Method::get,
       .summary = "Throw at once",
       .handlers = at_once<&Self::throw_now>()},
      {.pattern = "/guarded",
       .methods = Method::post,
       .summary = "Work with a capability",
       .handlers = queued<&Self::work>(),
       .takes = Takes::body,
       .op = "sample.write"},
      {.pattern = "/fail/{code:Name}",
       .methods = Method::get,
       .summary = "Fail as asked",
       .handlers = queued<&Self::fail_as_asked>()},
      {.pattern = "/later",
       .methods = Method::get,
       .summary = "Leave it to a worker",
       .handlers = at_once<&Self::leave_it, &Self::work>()},
      {.pattern = "/staged",
       .methods = Method::post,
       .summary = "Take, then give back",
       .handlers = staged<&Self::take_text, &Self::give_back>(),
       .takes = Takes::body},
      {.pattern = "/stage-throw",
       .methods = Method::post,
       .summary = "Throw while taking",
       .handlers = staged<&Self::throw_taking, &Self::give_back>(),
       .takes = Takes::body},
      {.pattern = "/object/{addr:Address}",
       .methods = Method::get,
       .summary = "Read",
       .handlers = queued<&Self::work>(),
       .op = "sample.read",
       .asked = Asked::of_reads},
      {.pattern = "/poll/{ms:Int}",
       .methods = Method::get,
       .summary = "Wait for a version",
       .handlers = open<&Self::try_poll, &Self::poll>(),
       .op = "sample.read",
       .asked = Asked::of_reads},
      {.pattern = "/events",
       .methods = Method::get | Method::head,
       .summary = "Tell of versions",
       .handlers = open<&Self::stream_versions>()},
  };
  return table;
}

class SampleService final : public Service {
 public:
  const ServiceDeclaration& declaration() const override { return sample_declaration; }
  std::span<const RouteSpec> routes() const override { return SampleShard::routes(); }
  std::vector<GateDeclaration> gates() const override { return {{"store"}, {"bus", false}}; }
  std::unique_ptr<ServiceShard> make_shard(ShardContext context) override {
    state.slab = &context.machine.slab;
    return std::make_unique<SampleShard>(state, context);
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

inline crypto::RootKey sample_root_key(std::uint8_t fill = 7) {
  std::array<std::byte, 40> entropy{};
  entropy.fill(std::byte{fill});
  return crypto::make_root_key(entropy, {1'767'225'600'000});
}
// `Authorization: Bearer …` of a token under the sample's key, with these caveats.
inline std::string bearer(const std::vector<std::string>& caveats = {}, std::uint64_t nonce = 1) {
  crypto::Macaroon macaroon = crypto::mint(sample_root_key(), "sample", make_ulid({1}, nonce, nonce));
  for (const std::string& caveat : caveats) macaroon = *crypto::attenuate(std::move(macaroon), caveat);
  return fmt::format("Authorization: Bearer {}\r\n", crypto::format_token(macaroon));
}

using SettingTexts = std::vector<std::pair<std::string, std::string>>;

class SimulatedNode {
 public:
  struct Shape {
    unsigned shards = 1;
    std::size_t workers = 1;
    std::uint64_t seed = 1;
    std::string bind = "host";      // `localhost`: a listener on loopback, which all can reach here
    std::uint16_t health_port = 0;  // of a listener for health only; 0: none
    bool open = false;              // without keys
    bool wait = true;               // until it serves
    SampleState state = {};         // to begin with
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
      CHECK(node.listen(i, {shape.bind, port, {}}).has_value());
      if (shape.health_port != 0) CHECK(node.listen(i, {"host", shape.health_port, {}}, true).has_value());
      node.start(i);
    }
    for (const char* gate : {"config", "store", "bus"}) node.health().set(gate, true);
    lifecycle_ = std::make_unique<Lifecycle>(
        std::vector{&node}, LifecycleEvents{.serving = [this] { serving = true; },
                                            .drained =
                                                [this](unsigned, const std::vector<DrainResult>& of) {
                                                  results.insert(results.end(), of.begin(), of.end());
                                                }});
    host.scope().spawn("life", live(host.scope().call()));
    if (shape.wait) CHECK(world.run_until([this] { return serving; }));
  }
  ~SimulatedNode() {
    if (!outcome) {
      drain(Duration::millis(1));
      world.run_until([this] { return outcome.has_value(); });
    }
    {
      ShardScope here(host.shard());
      lifecycle_.reset();
      node_.reset();
    }
    world.stop();
  }
  SimulatedNode(const SimulatedNode&) = delete;
  SimulatedNode& operator=(const SimulatedNode&) = delete;

  static constexpr std::uint16_t port = 80;
  io::sim::Guest connect() { return io::sim::Guest(world, away, {"host", port, {}}); }
  void drain(Duration within) {
    ShardScope here(host.shard());
    lifecycle_->end(within);
  }
  // Wakes the requests that wait on the last shard.
  void set_version(std::uint64_t version) {
    ShardScope here(host.shard(host.shards() - 1));
    service.state.version->set(version);
  }
  void abort() {
    ShardScope here(host.shard());
    lifecycle_->abort();
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
    node.series().expose(text);
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
  config::ServerKeys keys = config::declare_server_keys(schema, {.queues = queue_sizes(sample_declaration)});
  config::SnapshotPtr snapshot;
  RootKeys keys_of_process{crypto::KeyRing(sample_root_key())};
  bool serving = false;
  std::vector<DrainResult> results;         // one for each shard that has drained
  std::optional<LifecycleOutcome> outcome;  // when all has ended

 private:
  Task<> live(Call call) {
    auto ended = co_await lifecycle_->run(call);
    CHECK(ended.has_value());
    outcome = std::move(*ended);
  }
  Task<Result<>> revoke(Call, std::string id) {
    auto revoked = keys_of_process.revoke(id, sample_root_key(8));
    if (!revoked) co_return fail(revoked.error());
    for (unsigned i = 0; i < host.shards(); ++i) node.take_keys(i, *revoked);
    co_return Result<>{};
  }
  Access access(const Shape& shape) {
    if (shape.open) return {.open = true};
    return {.open = false, .keys = keys_of_process.current(), .revoke = [this](Call call, std::string id) {
              return revoke(call, std::move(id));
            }};
  }
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
    service.state = shape.state;
    node_ = std::make_unique<Node>(service, snapshot, keys, log, BuildInfo{"1.2.3", "abc", "debug"},
                                   shape.shards, shape.workers, access(shape));
    return node_.get();
  }

  std::deque<io::Machine> machines_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Lifecycle> lifecycle_;

 public:
  Node& node;
};

}  // namespace cairn::serve
