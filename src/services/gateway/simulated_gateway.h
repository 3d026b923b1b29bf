// For tests: the gateway on a node of a simulated world. The services behind it are one plain service in the
// same process, or scripts on another node.
#pragma once

#include <fmt/format.h>

#include <array>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "config/load.h"
#include "http/sse.h"
#include "http/websocket/handshake.h"
#include "io/sim/guest.h"
#include "serve/lifecycle.h"
#include "serve/open.h"
#include "serve/shared_rows.h"
#include "serve/sizes.h"
#include "services/gateway/scripted_upstream.h"
#include "services/gateway/service.h"

namespace cairn::gateway {

// What the plain service has seen, and how it answers.
struct PlainState {
  int asked = 0;
  int stopped = 0;  // handlers whose client left
  int talks = 0;    // WebSockets that are open
  io::PeerAddress peer;
  bool encrypted = false;
  std::string fields;
  Slab* slab = nullptr;
  codec::DecodeGuard guard;
  std::string object = std::string(1024, 'x');
};

// Says back what it hears.
class PlainTalk final : public http::websocket::Talk {
 public:
  explicit PlainTalk(int& alive) : alive_(alive) { ++alive_; }
  ~PlainTalk() override { --alive_; }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the carrier's
  Task<Result<More>> next(Call call, std::string& out) override {
    while (words_.empty()) CO_TRY_VOID(co_await ListWait(call, waiting_, "word"));
    for (const std::string& word : words_) http::websocket::append_text(out, word);
    words_.clear();
    co_return More::yes;
  }
  Task<Result<>> hear(Call, http::websocket::Opcode, std::string_view message) override {
    words_.emplace_back(message);
    while (!waiting_.empty()) wake(waiting_.front());
    co_return Result<>{};
  }

 private:
  int& alive_;
  std::vector<std::string> words_;
  WaitList waiting_;
};

class PlainEvents final : public http::EventFeed {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the carrier's
  Task<Result<More>> next(Call call, std::string& out) override {
    if (sent_ > 0) CO_TRY_VOID(co_await sleep_for(call, Duration::seconds(1)));
    http::append_event(out, "head", fmt::format("{}", ++sent_), "{}");
    co_return More::yes;
  }

 private:
  int sent_ = 0;
};

// Gives `first` bytes, and then fails.
class CutSource final : public io::BodySource {
 public:
  Task<Result<io::Piece>> next(Call) override {
    if (std::exchange(given_, true)) co_return fail(ErrorCode::io_failed, "cut");
    co_return io::Piece::memory(as_bytes(std::string_view("half")));
  }

 private:
  bool given_ = false;
};

class PlainShard final : public serve::ServiceShard {
 public:
  PlainShard(PlainState& state, serve::ShardContext context) : state_(state) {
    state_.slab = &context.machine.slab;
  }
  static std::span<const serve::RouteSpec> routes();

 private:
  void note(const serve::Request& request) {
    ++state_.asked;
    state_.peer = request.peer();
    state_.encrypted = request.encrypted();
    state_.fields.clear();
    for (std::size_t i = 0; i < request.fields().size(); ++i)
      state_.fields += fmt::format("{}: {}\n", request.fields().name(i), request.fields().value(i));
  }
  void get(serve::Request& request) {
    note(request);
    request.response.add_field("ETag", "\"one\"");
    request.response.answer_view("text/x-object", state_.object);
    if (request.fields().get(http::FieldName::if_none_match) == "\"one\"") request.response.status = 304;
  }
  void cut(serve::Request& request) {
    note(request);
    request.response.answer_sized("text/plain", std::make_unique<CutSource>(), 100);
  }
  Task<Result<>> echo(Call call, serve::Request& request) {
    note(request);
    serve::Body body(request, *state_.slab, state_.guard);
    CO_TRY(std::string text, co_await body.read_all(call, std::size_t{1} << 24));
    request.response.status = 201;
    request.response.add_field("Location", "/o/echo");
    request.response.text = std::move(text);
    request.response.answer_text("text/plain");
    co_return Result<>{};
  }
  Task<Result<>> wait(Call call, serve::Request& request) {
    note(request);
    const Result<> slept = co_await sleep_for(call, Duration::seconds(20));
    if (!slept) ++state_.stopped;
    CO_TRY_VOID(slept);
    request.response.answer_view("text/plain", "waited");
    co_return Result<>{};
  }
  bool try_nothing(serve::Request&) { return false; }
  Result<> stream(serve::Request& request) {
    note(request);
    if (http::websocket::is_asked_for(request.exchange))
      return http::websocket::answer(request.exchange, std::make_unique<PlainTalk>(state_.talks));
    http::answer_events(request.response, std::make_unique<PlainEvents>());
    return {};
  }

  PlainState& state_;
};

inline std::span<const serve::RouteSpec> PlainShard::routes() {
  using http::Method;
  using Self = PlainShard;
  static constexpr serve::RouteSpec table[] = {
      {.pattern = "/o/object",
       .methods = Method::get | Method::head,
       .summary = "An object",
       .handlers = serve::at_once<&Self::get>()},
      {.pattern = "/o/cut",
       .methods = Method::get,
       .summary = "Half of one",
       .handlers = serve::at_once<&Self::cut>()},
      {.pattern = "/o/wait",
       .methods = Method::get,
       .summary = "Late",
       .handlers = serve::queued<&Self::wait>()},
      {.pattern = "/o",
       .methods = Method::post,
       .summary = "Give back what came",
       .handlers = serve::queued<&Self::echo>(),
       .takes = serve::Takes::body},
      {.pattern = "/registry/head",
       .methods = Method::get,
       .summary = "Late",
       .handlers = serve::open<&Self::try_nothing, &Self::wait>()},
      {.pattern = "/registry/stream",
       .methods = Method::get,
       .summary = "Events",
       .handlers = serve::open<&Self::stream>()},
  };
  return table;
}

inline constexpr serve::SharedRows plain_rows{.workers = "one per shard"};
inline constexpr auto plain_tasks = serve::shared_tasks(plain_rows);
inline constexpr auto plain_queues = serve::shared_queues(plain_rows);
inline constexpr ServiceDeclaration plain_declaration{.name = "plain",
                                                      .purpose = "A service for tests.",
                                                      .owner = "tests",
                                                      .last_reviewed = "2026-01-01",
                                                      .drain = Duration::seconds(3),
                                                      .tasks = plain_tasks,
                                                      .queues = plain_queues,
                                                      .locks = {},
                                                      .writers = {}};

class PlainService final : public serve::Service {
 public:
  const ServiceDeclaration& declaration() const override { return plain_declaration; }
  std::span<const serve::RouteSpec> routes() const override { return PlainShard::routes(); }
  std::unique_ptr<serve::ServiceShard> make_shard(serve::ShardContext context) override {
    return std::make_unique<PlainShard>(state, context);
  }
  PlainState state;
};

using SettingTexts = std::vector<std::pair<std::string, std::string>>;

// A configuration with its schema, and a node made from it.
template <class Declare>
class Configured {
 public:
  using KeySet = std::invoke_result_t<Declare, config::Schema&>;
  Configured(Declare declare, SettingTexts settings) : keys(declare(schema)), snapshot(load(settings)) {}
  config::Schema schema;
  KeySet keys;
  config::SnapshotPtr snapshot;

 private:
  config::SnapshotPtr load(const SettingTexts& settings) {
    config::Sources sources;
    for (const auto& [key, value] : settings) sources.settings.push_back({key, value});
    sources.settings.push_back({"safety.danger_ok", "true"});
    auto loaded = config::load(schema, sources);
    if (!loaded) throw std::runtime_error(config::format_problems(loaded.error()));
    return *loaded;
  }
};

class SimulatedGateway {
 public:
  struct Shape {
    bool inside = true;            // the plain service is storage and registry, in the same process
    bool over_connection = false;  // it is, but as if it were another's
    SettingTexts settings = {};
    SettingTexts plain_settings = {};
    serve::KeySnapshotPtr keys = {};  // none: tokens pass unread
    std::string data = {};            // the gateway's directory; empty: it keeps nothing
    std::uint64_t seed = 1;
  };
  static constexpr std::uint16_t port = 80, plain_port = 81, behind_port = 82;

  SimulatedGateway() : SimulatedGateway(Shape{}) {}
  explicit SimulatedGateway(Shape shape)
      : world(shape.seed),
        host(world.add_node("host")),
        away(world.add_node("away")),
        behind(world.add_node("behind")),
        log({.slots = 1}, [this] { return host.shard().wall(); }),
        gateway_([](config::Schema& schema) { return declare_keys(schema); }, shape.settings),
        plain_([](config::Schema& schema) { return config::declare_server_keys(schema, {}); },
               shape.plain_settings),
        machine_(host.machine()) {
    ShardScope here(host.shard());
    service_ = make_service(gateway_.keys, read_options(*gateway_.snapshot, gateway_.keys, shape.data, 2));
    plain_node_ = std::make_unique<serve::Node>(plain, plain_.snapshot, plain_.keys, log,
                                                serve::BuildInfo{"0", "0", "test"}, 1, 4,
                                                serve::Access{.open = true}, &bus_);
    node_ = std::make_unique<serve::Node>(*service_, gateway_.snapshot, gateway_.keys.server, log,
                                          serve::BuildInfo{"0", "0", "test"}, 1, workers_per_shard,
                                          access(shape), &bus_);
    plain.state.guard = plain_node_->settings().decode;
    plain_node_->attach(machine_);
    CHECK(plain_node_->listen(0, {"host", plain_port, {}}).has_value());
    node_->attach(machine_, targets(shape));
    CHECK(node_->listen(0, {"host", port, {}}).has_value());
    for (serve::Node* each : {plain_node_.get(), node_.get()}) {
      each->start(0);
      each->health().set("config", true);
    }
    lifecycle_ = std::make_unique<serve::Lifecycle>(
        std::vector{plain_node_.get(), node_.get()},
        serve::LifecycleEvents{.serving = [this] { serving_ = true; }, .drained = {}});
    host.scope().spawn("life", live(host.scope().call()));
  }
  ~SimulatedGateway() {
    if (!ended) {
      drain(Duration::millis(1));
      world.run_until([this] { return ended; });
    }
    {
      ShardScope here(host.shard());
      lifecycle_.reset();
      node_.reset();
      plain_node_.reset();
    }
    world.stop();
  }
  SimulatedGateway(const SimulatedGateway&) = delete;
  SimulatedGateway& operator=(const SimulatedGateway&) = delete;

  void wait_until_it_serves() {
    CHECK(world.run_until([this] { return serving_; }));
  }
  io::sim::Guest connect() { return connect_to(port); }
  io::sim::Guest connect_to(std::uint16_t which) {
    if (!serving_) wait_until_it_serves();
    return io::sim::Guest(world, away, {"host", which, {}});
  }
  io::sim::Answer ask(std::string_view text) { return connect().ask(text); }
  void drain(Duration within) {
    ShardScope here(host.shard());
    lifecycle_->end(within);
  }
  // The value printed for exactly this cell of the gateway; 0 when it is not printed.
  double metric(std::string_view cell) {
    std::string text = "\n";
    node_->series().expose(text);
    const std::size_t at = text.find(fmt::format("\n{} ", cell));
    return at == std::string::npos ? 0 : std::stod(text.substr(at + cell.size() + 2));
  }
  serve::Health& health() { return node_->health(); }
  std::uint64_t memory_bytes() const {
    return gateway_.snapshot->get(gateway_.keys.server.memory_bytes).count;
  }
  void fail_task(std::string_view name) {
    ShardScope here(host.shard());
    node_->fail_task(0, name);
  }
  double breaker(std::string_view state) {
    return metric(fmt::format(R"(breaker_state{{target="storage",state="{}"}})", state));
  }

  io::sim::World world;
  io::sim::Node& host;
  io::sim::Node& away;
  io::sim::Node& behind;
  observe::Log log;
  PlainService plain;
  bool ended = false;

 private:
  static serve::Access access(const Shape& shape) {
    if (!shape.keys) return {.open = true};
    return {.keys = shape.keys, .revoke = [](Call, std::string) -> Task<Result<>> { co_return Result<>{}; }};
  }
  std::vector<serve::PeerTarget> targets(const Shape& shape) {
    if (shape.over_connection)
      return {{"storage", nullptr, {"host", plain_port, {}}},
              {"registry", nullptr, {"host", plain_port, {}}}};
    if (shape.inside)
      return {{"storage", &plain_node_->answerer(0)}, {"registry", &plain_node_->answerer(0)}};
    return {{"storage", nullptr, {"behind", behind_port, {}}},
            {"registry", nullptr, {"behind", behind_port, {}}}};
  }
  Task<> live(Call call) {
    (void)co_await lifecycle_->run(call);
    ended = true;
  }

  using DeclareGateway = Keys (*)(config::Schema&);
  using DeclarePlain = config::ServerKeys (*)(config::Schema&);
  bool serving_ = false;
  Configured<DeclareGateway> gateway_;
  Configured<DeclarePlain> plain_;
  serve::ProcessBus bus_;
  io::Machine machine_;
  std::unique_ptr<serve::Service> service_;
  std::unique_ptr<serve::Node> plain_node_, node_;
  std::unique_ptr<serve::Lifecycle> lifecycle_;
};

// The keys of the services behind, and tokens by them.
inline crypto::RootKey root_key() {
  std::array<std::byte, 40> same{};
  same.fill(std::byte{7});
  return crypto::make_root_key(same, WallTime{1});
}
inline serve::KeySnapshotPtr keys() {
  return std::make_shared<const serve::KeySnapshot>(1, crypto::KeyRing(root_key()));
}
inline std::string bearer(std::initializer_list<const char*> caveats) {
  crypto::Macaroon token = crypto::mint(root_key(), "cairn", {});
  for (const char* caveat : caveats) token = *crypto::attenuate(std::move(token), caveat);
  return fmt::format("Authorization: Bearer {}\r\n", crypto::format_token(token));
}

inline std::string get(std::string_view path, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: h\r\n{}\r\n", path, more);
}
inline std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
  return fmt::format("POST {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n{}\r\n{}", path, body.size(), more,
                     body);
}

}  // namespace cairn::gateway
