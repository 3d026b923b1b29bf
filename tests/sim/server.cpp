#include "server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/wait.h"
#include "scenario.h"
#include "serve/lifecycle.h"

namespace cairn::simulator {
namespace {

constexpr Duration drain_slack = Duration::millis(100);

// `routes`: how many the service has.
std::int64_t count_inflight(serve::Node& node, std::size_t routes) {
  std::int64_t sum = 0;
  for (std::size_t route = 0; route < routes; ++route) sum += node.metrics().inflight.at(route).value();
  return sum;
}

// Lowered limits evict nobody: the bound follows what is there down to the limit.
struct Bound {
  std::int64_t bound = 0;
  // `beside`: of these, so many are counted elsewhere.
  bool holds(std::int64_t value, std::int64_t limit, std::int64_t beside = 0) {
    bound = std::max(bound, limit);
    const bool fine = value <= bound + beside;
    bound = std::max(limit, std::min(bound, value));
    return fine;
  }
};

}  // namespace

// --- the service, with what it does written down

class Server::AuditedShard : public serve::ServiceShard {
 public:
  AuditedShard(std::unique_ptr<serve::ServiceShard> inner, Server& server)
      : inner_(std::move(inner)), server_(server) {}
  Result<bool> answer_now(const serve::Handlers& handlers, serve::Request& request) override {
    server_.seen(request);
    return inner_->answer_now(handlers, request);
  }
  // Now and then long enough that somebody asks before it is there.
  Task<Result<>> start(Call call) override {
    const auto delay = static_cast<std::int64_t>(server_.scenario_.random().below(100));
    if (delay < 30) CO_TRY_VOID(co_await sleep_for(call, Duration::millis(delay)));
    co_return co_await inner_->start(call);
  }
  Task<> stop(Call call) override { return inner_->stop(call); }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the table outlives it
  Task<Result<>> take(Call call, const serve::Handlers& handlers, serve::Request& request) override {
    Result<> outcome = co_await inner_->take(call, handlers, request);
    server_.clock(request, "taking its body");
    co_return outcome;
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the table outlives it
  Task<Result<>> answer_later(Call call, const serve::Handlers& handlers, serve::Request& request) override {
    if (handlers.run == serve::Run::open) co_return co_await inner_->answer_later(call, handlers, request);
    server_.started(request);
    Result<> outcome = co_await inner_->answer_later(call, handlers, request);
    server_.ended(request, outcome);
    server_.clock(request, "handling it");
    co_return outcome;
  }
  void apply(const config::Snapshot& snapshot) override { inner_->apply(snapshot); }
  void take_keys(const serve::KeySnapshotPtr& keys) override { inner_->take_keys(keys); }
  Turnstile* turnstile() override {
    Turnstile* const own = inner_->turnstile();
    server_.turnstile_ = own;
    return own;
  }
  serve::Tenancy* tenancy() override { return inner_->tenancy(); }

 private:
  std::unique_ptr<serve::ServiceShard> inner_;
  Server& server_;
};

class Server::AuditedService : public serve::Service {
 public:
  explicit AuditedService(Server& server) : inner_(server.scenario_.make_service(server)), server_(server) {}
  const ServiceDeclaration& declaration() const override { return inner_->declaration(); }
  std::span<const serve::RouteSpec> routes() const override { return inner_->routes(); }
  std::vector<serve::GateDeclaration> gates() const override { return inner_->gates(); }
  std::unique_ptr<serve::ServiceShard> make_shard(serve::ShardContext context) override {
    return std::make_unique<AuditedShard>(inner_->make_shard(context), server_);
  }
  void declare_metrics(observe::Registry& registry) override { inner_->declare_metrics(registry); }

 private:
  std::unique_ptr<serve::Service> inner_;
  Server& server_;
};

// --- one life: what a process has

struct Server::Life {
  Life(Server& owner, io::sim::Node& self, config::SnapshotPtr snapshot)
      : server(owner),
        home(self),
        log({.slots = self.shards(), .records_per_slot = 4, .level = observe::Level::error},
            [] { return WallTime{}; }),
        service(owner),
        node(service, std::move(snapshot), owner.scenario_.server_keys(owner.number_), log, {"0", "0", "sim"},
             self.shards(), owner.scenario_.plan().workers, owner.scenario_.access(owner)) {
    const std::vector<serve::PeerTarget> peers = owner.scenario_.peers(owner);
    machines.reserve(self.shards());
    for (unsigned i = 0; i < self.shards(); ++i) {
      machines.push_back(self.machine(i));
      node.attach(machines.back(), peers);
      owner.scenario_.prepare(owner, node, i);
      CHECK(node.listen(i, {.host = {}, .port = owner.port_, .path = {}}).has_value());
    }
    CHECK(node.listen(0, {.host = {}, .port = health_port, .path = {}}, true).has_value());
    for (unsigned i = 0; i < self.shards(); ++i) {
      node.start(i);
      ShardScope here(self.shard(i));
      self.scope(i).spawn("reaper", reap(self.scope(i).call(), i));
    }
    node.health().set("config", true);
    lifecycle = std::make_unique<serve::Lifecycle>(
        std::vector{&node},
        serve::LifecycleEvents{.serving = [this] { server.serving_since_ = server.scenario_.world().now(); },
                               .drained =
                                   [this](unsigned, const std::vector<DrainResult>& results) {
                                     for (const DrainResult& result : results) left(result);
                                   }});
    self.scope(0).spawn("life", live(self.scope(0).call()));
    if (!server.scenario_.accompanied()) return;
    accompanied = true;
    self.scope(0).spawn("companion", accompany(self.scope(0).call()));
  }

  // The node's own scopes are roots; the end of the machine is brought to them.
  Task<> reap(Call call, unsigned shard) {
    (void)co_await sleep_until(call, Instant::never());
    node.drain(shard, current_shard()->now(), [](DrainResult) {});
    node.cut_off(shard);
  }

  Task<> live(Call call) {
    auto outcome = co_await lifecycle->run(call);
    if (!outcome || crashed) co_return;
    if (outcome->failed != nullptr) server.could_not_start(outcome->failure);
    // A moment later, so that the task that tells us has ended too.
    server.scenario_.world().after(Duration::millis(1), [&owner = server, &self = home, life = home.lives()] {
      if (self.up() && self.lives() == life) owner.drained();
    });
  }

  Task<> accompany(Call call) {
    co_await server.scenario_.accompany(call, server, machines[0]);
    accompanied = false;
  }

  std::int64_t inflight() { return count_inflight(node, service.routes().size()); }

  void left(const DrainResult& result) {
    if (crashed) return;
    Scenario& scenario = server.scenario_;
    if (result.aborted > 0) {
      server.last_abort_ = scenario.world().now();
      scenario.hit(aborting ? io::sim::Tag("sim.second_signal_abort")
                            : io::sim::Tag("sim.drain_deadline_abort"));
    }
    for (const std::string& task : result.still_alive)
      scenario.violate(fmt::format("{}: task {} outlived the abort", server.name_, task));
    const Instant latest = deadline + Drain::grace + drain_slack;
    if (!disturbed && scenario.world().now() > latest)
      scenario.violate(fmt::format("{}: drain ended {} ms after its deadline", server.name_,
                                   (scenario.world().now() - deadline).to_millis()));
  }

  Server& server;
  io::sim::Node& home;
  observe::Log log;
  AuditedService service;
  std::vector<io::Machine> machines;
  serve::Node node;
  std::unique_ptr<serve::Lifecycle> lifecycle;
  Instant deadline = Instant::never();  // of the drain
  bool draining = false, aborting = false, crashed = false, accompanied = false, disturbed = false;
  Bound inflight_bound, connection_bound;
};

Server::Server(Scenario& scenario, unsigned number, unsigned shards, const Limits& limits)
    : scenario_(scenario),
      number_(number),
      shards_(shards),
      name_(fmt::format("s{}", number)),
      limits_(limits),
      least_(limits),
      most_(limits) {}
Server::~Server() = default;

void Server::start() {
  scenario_.world().add_node(name_, shards_, [this](io::sim::Node& node) { boot(node); });
}

void Server::boot(io::sim::Node& node) {
  if (inspection_) return inspection_(node);
  if (node_ == nullptr) {
    node_ = &node;
    scenario_.furnish(node.disk());
  }
  ++lives_;
  serving_since_ = Instant::never();
  life_ = &node.make<Life>(*this, node, scenario_.load(number_, limits_, ++versions_));
}

void Server::inspect(std::function<void(io::sim::Node&)> program) {
  CHECK(life_ == nullptr);
  inspection_ = std::move(program);
  scenario_.world().restart(*node_);
}

// Nobody said that it may fail unless its disk does; then it is started again like one that has ended.
void Server::could_not_start(const Error& why) {
  scenario_.hit("sim.start_failed");
  if (!scenario_.may_fail_to_start())
    scenario_.violate(fmt::format("{}: could not start: {} ({})", name_, why.context, name_of(why.code)));
}

bool Server::draining() const noexcept { return life_ != nullptr && life_->draining; }

std::string Server::describe() const {
  if (life_ == nullptr) return name_ + ": down";
  std::size_t connections = 0, refusals = 0;
  for (unsigned i = 0; i < shards_; ++i) {
    connections += life_->node.connections(i);
    refusals += life_->node.refusals(i);
  }
  return fmt::format(
      "{}: {} connections {} ({} refused) inflight {} depth {} tasks {} (conns {} per ip {} inflight {} rps "
      "{} idle {} ms)",
      name_, life_->draining ? "draining" : "up", connections, refusals, life_->inflight(),
      life_->node.metrics().queue_depth.at(0).value(), node_->live_tasks(), limits_.conns, limits_.per_ip,
      limits_.inflight, limits_.rps, limits_.idle_ms);
}

void Server::disturbed() noexcept {
  if (life_ != nullptr) life_->disturbed = true;
}

// --- what is done to it

void Server::drain() {
  if (life_ == nullptr || life_->draining) return;
  Life& life = *life_;
  life.draining = true;
  last_drain_ = scenario_.world().now();
  scenario_.hit(life.inflight() > 0 ? io::sim::Tag("sim.drain_with_inflight")
                                    : io::sim::Tag("sim.drain_idle"));
  life.node.health().set_draining();
  CHECK(node_->mailbox(0)
            .try_post_call([&life] {
              const Duration within = Duration::millis(life.server.limits_.drain_ms);
              life.deadline = current_shard()->now() + within;
              life.lifecycle->end(within);
            })
            .has_value());
}

void Server::second_signal() {
  if (life_ == nullptr || !life_->draining) return;
  life_->aborting = true;
  last_abort_ = scenario_.world().now();
  scenario_.hit("sim.second_signal");
  Life& life = *life_;
  CHECK(node_->mailbox(0).try_post_call([&life] { life.lifecycle->abort(); }).has_value());
}

void Server::remember(const Limits& limits) {
  limits_ = limits;
  for (auto field : {&Limits::conns, &Limits::per_ip, &Limits::inflight, &Limits::rps, &Limits::work,
                     &Limits::body, &Limits::head, &Limits::read_ms, &Limits::write_ms, &Limits::idle_ms,
                     &Limits::request_ms, &Limits::drain_ms}) {
    least_.*field = std::min(least_.*field, limits.*field);
    most_.*field = std::max(most_.*field, limits.*field);
  }
}

void Server::reload(const Limits& limits) {
  Limits next = limits;
  next.work = limits_.work;  // takes a restart
  check_bounds();
  remember(next);
  if (life_ == nullptr) return;
  scenario_.hit("sim.reload");
  Life& life = *life_;
  config::SnapshotPtr snapshot = scenario_.load(number_, next, ++versions_);
  life.node.apply_limits(*snapshot);
  for (unsigned i = 0; i < shards_; ++i)
    CHECK(
        node_->mailbox(i).try_post_call([&life, i, snapshot] { life.node.apply(i, snapshot); }).has_value());
}

void Server::rebind() {
  ++port_;
  if (life_ == nullptr) return;
  scenario_.hit("sim.rebind");
  Life& life = *life_;
  for (unsigned i = 0; i < shards_; ++i)
    CHECK(node_->mailbox(i)
              .try_post_call([this, &life, i, port = port_] {
                const bool moved = life.node.rebind(i, {.host = {}, .port = port, .path = {}}).has_value();
                if (!moved && !life.draining && !life.crashed)
                  scenario_.violate(fmt::format("{}: cannot listen on port {}", name_, port));
              })
              .has_value());
}

void Server::crash(io::sim::Crash how) {
  if (life_ == nullptr) return;
  life_->crashed = true;
  life_ = nullptr;
  scenario_.world().crash(*node_, how);
  scenario_.look_at_disk(*this, how == io::sim::Crash::power);
}

void Server::restart() {
  if (life_ == nullptr && scenario_.phase() < Phase::draining) scenario_.world().restart(*node_);
}

std::string Server::find_left() {
  if (life_ == nullptr) return {};
  if (const std::int64_t left = life_->inflight(); left != 0) return fmt::format("{} in flight", left);
  if (const std::int64_t left = life_->node.metrics().queue_depth.at(0).value(); left != 0)
    return fmt::format("{} queued", left);
  return scenario_.find_left(*this, life_->node, false);
}

std::string Server::metrics_text() const {
  std::string text = "\n";
  if (life_ != nullptr) life_->node.series().expose(text);
  return text;
}

// --- what must hold

void Server::check_bounds() {
  if (life_ == nullptr || life_->crashed) return;
  Life& life = *life_;
  std::int64_t connections = 0;
  for (unsigned i = 0; i < shards_; ++i)
    connections += static_cast<std::int64_t>(life.node.connections(i) - life.node.refusals(i));
  const auto reserved =
      static_cast<std::int64_t>(3 * serve::Admission::reserved_connections);  // of each door
  if (!life.connection_bound.holds(connections, limits_.conns, reserved))
    scenario_.violate(
        fmt::format("{}: {} connections, {} + 16 a door allowed", name_, connections, limits_.conns));
  const std::int64_t running = life.inflight();
  const auto beyond = limits_.inflight / static_cast<std::int64_t>(serve::Shares::beyond_part);
  if (!life.inflight_bound.holds(running, limits_.inflight + beyond))
    scenario_.violate(
        fmt::format("{}: {} in flight, {} + {} allowed", name_, running, limits_.inflight, beyond));
  const std::int64_t depth = life.node.metrics().queue_depth.at(0).value();
  if (depth > limits_.work)
    scenario_.violate(fmt::format("{}: {} queued, {} allowed", name_, depth, limits_.work));
}

void Server::drained() {
  Life& life = *life_;
  // Whoever was cut off while it waited for the disk or the pool left something behind that holds its memory.
  // The process ends it before its services go, as the real one does.
  if (node_->under_way() > 0) scenario_.hit("sim.drained_before_its_jobs");
  node_->finish();
  const std::size_t own = shards_ + (life.accompanied ? 1 : 0);
  if (node_->live_tasks() != own)
    scenario_.violate(
        fmt::format("{}: {} tasks live after the drain, {} expected", name_, node_->live_tasks(), own));
  for (unsigned i = 0; i < shards_; ++i) {
    if (life.node.connections(i) != 0)
      scenario_.violate(
          fmt::format("{}: {} connections left after the drain", name_, life.node.connections(i)));
    const std::size_t left = life.machines[i].slab.outstanding();
    if (left != 0 && !(life.accompanied && i == 0))
      scenario_.violate(fmt::format("{}: {} buffers left after the drain", name_, left));
  }
  if (const std::int64_t left = life.inflight(); left != 0)
    scenario_.violate(fmt::format("{}: {} in flight after the drain", name_, left));
  if (const std::int64_t left = life.node.metrics().queue_depth.at(0).value(); left != 0)
    scenario_.violate(fmt::format("{}: {} queued after the drain", name_, left));
  if (const std::string left = scenario_.find_left(*this, life.node, true); !left.empty())
    scenario_.violate(fmt::format("{}: after the drain: {}", name_, left));
  scenario_.hit("sim.drained");
  crash(io::sim::Crash::process);
  if (scenario_.phase() >= Phase::draining) return;
  const Duration down = Duration::millis(static_cast<std::int64_t>(scenario_.random().below(1000)));
  scenario_.world().after(down, [this] { restart(); });
}

// --- the audit

void Server::seen(const serve::Request& asked) {
  check_bounds();
  Request* request = scenario_.find_request(asked.corr());
  if (request != nullptr && request->server == number_) ++request->seen;
}

void Server::started(const serve::Request& asked) {
  check_bounds();
  Request* request = scenario_.find_request(asked.corr());
  if (request == nullptr) return;
  if (request->server != number_) {
    ++request->passed;
    if (request->once && request->passed > 1)
      scenario_.violate(fmt::format("{}: {} was passed on twice", name_, asked.corr()));
    return;
  }
  ++request->seen;
  ++request->started;
  if (request->once && request->started > 1)
    scenario_.violate(fmt::format("{}: {} was started twice", name_, asked.corr()));
}

void Server::ended(const serve::Request& asked, const Result<>& outcome) {
  if (!outcome && outcome.error().stop == StopReason::client_gone) scenario_.hit("sim.client_gone_cancels");
  Request* request = scenario_.find_request(asked.corr());
  if (request != nullptr && request->server == number_ && outcome) ++request->done;
}

void Server::clock(const serve::Request& request, const char* what) {
  const Instant now = scenario_.world().now();
  if (scenario_.overrun().ns == Instant::never().ns || life_ == nullptr || life_->disturbed) return;
  if (now > request.deadline + scenario_.overrun())
    scenario_.violate(fmt::format("{}: {} {}: {} took until {} ms after the deadline", name_, request.corr(),
                                  request.head().target(), what, (now - request.deadline).to_millis()));
}

}  // namespace cairn::simulator
