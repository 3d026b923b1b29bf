#include "serve/node.h"

#include <algorithm>

#include "codec/json_writer.h"
#include "serve/sizes.h"

namespace cairn::serve {
namespace {

// `admin_op` outlives them.
std::vector<RouteSpec> all_routes(const Service& service, const Access& access, std::string_view admin_op) {
  std::vector<RouteSpec> specs(service.routes().begin(), service.routes().end());
  // A service that asks for capabilities but has no keys would let every client in, or none.
  for (const RouteSpec& spec : specs) CHECK(spec.op.empty() || access.keys != nullptr || access.open);
  CHECK((access.keys != nullptr) == static_cast<bool>(access.revoke));
  const std::vector<RouteSpec> built_in = built_in_routes(admin_op);
  specs.insert(specs.end(), built_in.begin(), built_in.end());
  if (access.keys == nullptr) specs.pop_back();
  return specs;
}

std::vector<http::Route> plain_routes(std::span<const RouteSpec> specs) {
  std::vector<http::Route> routes;
  for (const RouteSpec& spec : specs)
    routes.push_back({static_cast<http::RouteId>(routes.size()), spec.methods, spec.pattern});
  return routes;
}

// The built-in routes answer in the step that begins them, except the last, which asks the host.
std::vector<Metrics::Route> measured(std::span<const RouteSpec> specs, std::size_t own) {
  std::vector<Metrics::Route> routes;
  for (const RouteSpec& spec : specs)
    routes.push_back({spec.pattern, spec.handlers.run != Run::open &&
                                        (routes.size() < own || spec.handlers.run == Run::queued)});
  return routes;
}

std::string write_version(std::string_view service, const BuildInfo& build, bool http2) {
  std::string out;
  codec::JsonWriter json(out);
  json.begin_object()
      .field("service", service)
      .field("version", build.version)
      .field("git", build.git)
      .field("build", build.build);
  json.key("features").begin_array().value("http/1.1");
  if (http2) json.value("h2");
  json.end_array().end_object().finish();
  return out;
}

std::vector<GateDeclaration> all_gates(const Service& service) {
  std::vector<GateDeclaration> gates = service.gates();
  for (std::string_view shared : {"config", "listener", "tasks", "afterwards"}) gates.push_back({shared});
  gates.push_back({"background", false, false});
  return gates;
}

constexpr Duration lag_warning_period = Duration::seconds(5);
constexpr Duration task_patience = Duration::seconds(1);
// Time to answer the last requests of connections that attend, and to show what was aborted.
constexpr Duration last_look = Duration::millis(100);

void log_event(const observe::Logger& log, const Event& event) {
  switch (event.kind) {
    case Event::Kind::shutdown:
      log.debug("shutdown", {{"of", event.service}});
      return;
    case Event::Kind::config_updated:
      log.debug("configuration updated", {{"of", event.service}, {"version", event.version}});
      return;
    case Event::Kind::registry_updated:
      log.debug("registry updated", {{"version", event.version}, {"b3", format_address(event.b3)}});
      return;
    case Event::Kind::registry_audited:
      log.debug("registry audited", {{"sequence", event.version}});
      return;
  }
}

// Waits for tasks that have been told to end.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<> end_tasks(Call call, const Drain& drain, Supervisor& tasks, DrainResult& result) {
  if (co_await tasks.join(call.within(task_patience).by(drain.orderly_until()))) co_return;
  tasks.abort();
  if (co_await tasks.join(call.by(drain.abandoned_at()))) co_return;
  result.aborted += tasks.size();
  tasks.scope().for_each_task([&](const TaskInfo& task) { result.still_alive.emplace_back(task.name); });
}

}  // namespace

// Counts a shard's background tasks, and tells of those that stay down.
class Node::BackgroundEvents : public TaskEvents {
 public:
  BackgroundEvents(Shared& shared, observe::Logger log, observe::Slot slot) noexcept
      : metrics_(shared.metrics), health_(shared.health), log_(log), slot_(slot) {}
  void spawned(const TaskDeclaration& task) noexcept override {
    count(metrics_.tasks_spawned, task);
    metrics_.count_running(task.name, slot_, 1);
  }
  void ended(const TaskDeclaration& task) noexcept override { metrics_.count_running(task.name, slot_, -1); }
  void cancelled(const TaskDeclaration& task) noexcept override { count(metrics_.tasks_canceled, task); }
  void aborted(const TaskDeclaration& task) noexcept override { count(metrics_.tasks_aborted, task); }
  void panicked(const TaskDeclaration& task, const char* what) noexcept override {
    log_.error("a task ended with an exception", {{"task", task.name}, {"what", what}});
    count(metrics_.tasks_panicked, task);
    metrics_.backoff_retries.at(Repeated::restart).add(slot_);
  }
  void unhealthy(const TaskDeclaration& task) noexcept override {
    log_.error("a task stays down", {{"task", task.name}});
    health_.task_stays_down(task.criticality);
  }

 private:
  void count(const observe::CounterFamily& family, const TaskDeclaration& task) const noexcept {
    family.at(metrics_.kind_index(task.kind)).add(slot_);
  }
  Metrics& metrics_;
  Health& health_;
  observe::Logger log_;
  observe::Slot slot_;
};

// Members are destroyed in reverse order; by then no task is alive. The server's cancel sources are children
// of its connections' scope, so the server is destroyed first.
struct Node::ShardPart {
  ShardPart(Shared& shared, io::Machine& m, config::SnapshotPtr snapshot, const Settings& settings,
            observe::Logger l, std::size_t workers, ProcessBus& process, std::span<const PeerTarget> targets)
      : machine(m),
        log(l),
        events(shared, l, m.shard.index()),
        bus(m.shard, std::move(snapshot), process, shared.service.declaration().name),
        peers(m, targets),
        tasks(m.shard, shared.service.declaration().tasks, &events),
        pipeline(shared, m, bus, peers, settings, l, tasks, workers),
        connections(m.shard),
        attending(m.shard),
        server(machine, pipeline, pipeline, settings.server),
        background(m.shard, shared.service.declaration().tasks, &events),
        starting(m.shard),
        stopping(m.shard),
        control(m.shard),
        keys_version(shared.access.keys ? shared.access.keys->version : 0) {}

  io::Machine& machine;
  observe::Logger log;
  BackgroundEvents events;
  Bus bus;
  Peers peers;
  Supervisor tasks;  // the service's own
  Pipeline pipeline;
  Scope connections, attending;
  http::Server server;
  Supervisor background;  // workers and the tasks that every service has
  Scope starting, stopping;
  Scope control;
  bool started = false;  // the service's start() has succeeded
  bool draining = false;
  std::atomic<std::uint64_t> keys_version;
};

Node::Node(Service& service, config::SnapshotPtr snapshot, const config::ServerKeys& keys, observe::Log& log,
           BuildInfo build, unsigned shards, std::size_t workers, Access access, ProcessBus* bus)
    : service_(service),
      keys_(keys),
      settings_(read_settings(*snapshot, keys)),
      snapshot_(snapshot),
      log_(log),
      workers_(workers),
      access_(std::move(access)),
      own_bus_(bus == nullptr ? std::make_unique<ProcessBus>() : nullptr),
      bus_(bus == nullptr ? *own_bus_ : *bus),
      admin_op_(std::string(service.declaration().name) + ".admin"),
      registry_(shards),
      specs_(all_routes(service, access_, admin_op_)),
      routes_(plain_routes(specs_)),
      metrics_(registry_, measured(specs_, service.routes().size()), service.declaration()),
      health_(all_gates(service)),
      admission_(settings_),
      work_(queue_capacity(service.declaration(), *snapshot, keys, "work")),
      version_json_(write_version(service.declaration().name, build, keys.http2.has_value())),
      shared_{service_,      access_, routes_, specs_,   service_.routes().size(),
              admission_,    work_,   health_, metrics_, registry_,
              version_json_, {}} {
  CHECK(find_topology_problems(service.declaration()).empty());
  shared_.topology_json = [this](std::string& out) { out += topology_json(); };
  service.declare_metrics(registry_);
  log.declare_metrics(registry_);
  const bool amnesia = snapshot_->get(keys.amnesia);
  registry_.observed_gauge("amnesia_mode", "1 while nothing is written to disk.",
                           [amnesia] { return amnesia ? 1.0 : 0.0; });
  auto info =
      registry_.gauges({"build_info",
                        "Always 1; what was built is in the labels.",
                        {{"version", {std::string(build.version)}}, {"git", {std::string(build.git)}}}});
  info.at(0, 0).set(0, 1);
}

Node::~Node() = default;

void Node::attach(io::Machine& machine, std::span<const PeerTarget> peers) {
  ShardScope here(machine.shard);
  observe::Logger log(log_, machine.shard.index(), service_.declaration().name);
  CHECK(parts_.size() == machine.shard.index());
  if (parts_.empty()) {
    std::uint64_t seed = 0;
    machine.entropy.fill(std::as_writable_bytes(std::span(&seed, 1)));
    admission_.set_seed(seed);
    for (std::size_t i = 0; i < service_.declaration().lanes.size(); ++i)
      metrics_.pool_waiting.bind(
          [&pool = machine.pool, lane = static_cast<Lane>(i)] {
            return static_cast<double>(pool.queued(lane));
          },
          i);
  }
  bus_.attach(machine.shard, machine.mailbox);
  parts_.push_back(
      std::make_unique<ShardPart>(shared_, machine, snapshot_, settings_, log, workers_, bus_, peers));
  ShardPart& part = *parts_.back();
  part.pipeline.give_way().attach(part.server);
  shared_.ways.push_back(&part.pipeline.give_way());
}

void Node::set_tls(unsigned shard, std::shared_ptr<const io::TlsServer> tls) noexcept {
  parts_[shard]->server.set_tls(std::move(tls));
}

Result<std::string> Node::listen(unsigned shard, const io::Endpoint& endpoint, bool health_only) {
  TRY_VOID(parts_[shard]->server.listen(endpoint, health_only));
  return parts_[shard]->server.addresses().back();
}

Result<std::string> Node::rebind(unsigned shard, const io::Endpoint& endpoint) {
  TRY_VOID(parts_[shard]->server.rebind(endpoint));
  metrics_.tasks_spawned.at(metrics_.kind_index("listener")).add(shard);
  return parts_[shard]->server.addresses().back();
}

void Node::start(unsigned shard) {
  ShardPart& part = *parts_[shard];
  ShardScope here(part.machine.shard);
  part.pipeline.start(part.background);
  CHECK(part.background.start("event-log", [this, &part](Call call) { return log_events(call, part); })
            .has_value());
  part.server.start(part.connections, &part.attending);
  metrics_.tasks_spawned.at(metrics_.kind_index("listener"))
      .add(part.machine.shard.index(), part.server.addresses().size());
  health_.set("tasks", true);
  health_.set("afterwards", true);
  health_.set("background", true);
}

// Shows the capacities that this process was configured with, and the present depths.
std::string Node::topology_json() const {
  const std::vector<QueueDeclaration> queues = configured_queues(service_.declaration(), *snapshot_, keys_);
  Pool& pool = parts_.front()->machine.pool;
  std::vector<LaneDeclaration> lanes(service_.declaration().lanes.begin(),
                                     service_.declaration().lanes.end());
  ServiceDeclaration effective = service_.declaration();
  effective.queues = queues;
  Live live;
  live.depth = [&](std::string_view name) -> std::optional<std::uint64_t> {
    const auto queue = std::ranges::find(queues, name, &QueueDeclaration::name);
    if (queue->kind == QueueKind::watch) return std::nullopt;
    if (name != "mailbox") return metrics_.depth(name);
    std::uint64_t calls = 0;
    for (const auto& part : parts_) calls += part->machine.mailbox.calls();
    return calls;
  };
  live.running = [&](std::string_view name) -> std::optional<std::uint64_t> {
    if (name == "connection") return admission_.connections().taken();
    if (name == "listener" || name == "supervisor") return std::nullopt;
    return metrics_.running(name);
  };
  live.waiting = [&](std::string_view name) -> std::optional<std::uint64_t> {
    for (std::size_t i = 0; i < lane_count; ++i)
      if (lane_declarations[i].name == name) return pool.queued(static_cast<Lane>(i));
    return std::nullopt;
  };
  for (std::size_t i = 0; i < lanes.size(); ++i)
    if (const std::size_t threads = pool.threads(static_cast<Lane>(i)); threads > 0)
      lanes[i].threads = threads;
  effective.lanes = lanes;
  return format_topology_json(effective, live);
}

void Node::serve() noexcept {
  shared_.serving.store(true, std::memory_order_release);
  health_.set("listener", true);
}

void Node::start_service(unsigned shard, std::function<void(Result<>)> done) {
  ShardPart& part = *parts_[shard];
  part.starting.spawn("start", start_shard(part.starting.call(), part, std::move(done)));
}

void Node::cancel_start(unsigned shard) noexcept { parts_[shard]->starting.cancel(StopReason::draining); }

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): parts outlive their tasks
Task<> Node::start_shard(Call call, ShardPart& part, std::function<void(Result<>)> done) {
  Result<> outcome;
  try {
    outcome = co_await part.pipeline.service().start(call);
  } catch (const std::exception& problem) {
    part.log.error("the start failed", {{"what", problem.what()}});
    outcome = fail(ErrorCode::internal, "an exception, which is logged");
  } catch (...) {
    outcome = fail(ErrorCode::internal, "an exception of no known kind");
  }
  part.started = outcome.has_value();
  done(outcome);
}

http::Answerer& Node::answerer(unsigned shard) noexcept { return parts_[shard]->pipeline; }

Mailbox& Node::mailbox(unsigned shard) noexcept { return parts_[shard]->machine.mailbox; }

void Node::take_keys(unsigned shard, const KeySnapshotPtr& keys) {
  ShardPart& part = *parts_[shard];
  part.pipeline.take_keys(keys);
  if (keys->version > part.keys_version.load(std::memory_order_relaxed))
    part.keys_version.store(keys->version, std::memory_order_relaxed);
}

std::vector<std::string> Node::revoked_keys() {
  return parts_.front()->started ? parts_.front()->pipeline.service().revoked_keys()
                                 : std::vector<std::string>();
}

std::uint64_t Node::keys_version(unsigned shard) const noexcept {
  return parts_[shard]->keys_version.load(std::memory_order_relaxed);
}

std::size_t Node::connections(unsigned shard) const noexcept { return parts_[shard]->server.connections(); }
std::size_t Node::refusals(unsigned shard) const noexcept { return parts_[shard]->server.refusals(); }

void Node::apply_limits(const config::Snapshot& snapshot) {
  settings_ = read_settings(snapshot, keys_);
  admission_.apply(settings_);
}

void Node::apply(unsigned shard, const config::SnapshotPtr& snapshot) {
  ShardPart& part = *parts_[shard];
  const Settings settings = read_settings(*snapshot, keys_);
  part.server.set_options(settings.server);
  part.pipeline.apply(*snapshot, settings);
  part.bus.config.set(snapshot);
  // Each shard tells its own listeners, once it has the configuration.
  (void)part.bus.events.send({Event::Kind::config_updated, snapshot->version(), {}, name()});
}

void Node::drain(unsigned shard, Instant deadline, std::function<void(DrainResult)> done) {
  ShardPart& part = *parts_[shard];
  health_.set_draining();
  part.bus.drain.begin(deadline);
  if (std::exchange(part.draining, true)) return;
  (void)part.bus.events.send({Event::Kind::shutdown, 0, {}, name()});
  part.server.drain();
  part.control.spawn("drain", drain_shard(part.control.call(), part, std::move(done)));
}

void Node::stop_service(unsigned shard, Instant deadline, std::function<void(DrainResult)> done) {
  ShardPart& part = *parts_[shard];
  part.control.spawn("stop", stop_shard(part.control.call().by(deadline), part, std::move(done)));
}

void Node::leave(unsigned shard, bool aborted, std::function<void(DrainResult)> done) {
  ShardPart& part = *parts_[shard];
  part.control.spawn("leave", leave_shard(part.control.call(), part, aborted, std::move(done)));
}

void Node::abort(unsigned shard) noexcept {
  ShardPart& part = *parts_[shard];
  part.bus.drain.abort_now();
  part.starting.abort();
  part.tasks.abort();
  part.stopping.abort();
}

void Node::cut_off(unsigned shard) noexcept {
  abort(shard);
  parts_[shard]->attending.abort();
  parts_[shard]->background.abort();
}

void Node::fail_task(unsigned shard, std::string_view name) noexcept {
  ShardPart& part = *parts_[shard];
  part.tasks.fail_tasks(name, false);
  part.background.fail_tasks(name, true);  // a worker's wait is shielded: it ends when the queue is closed
}

// The one listener to events that every service has: it logs the events, and counts those it missed.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): parts outlive their tasks
Task<> Node::log_events(Call call, ShardPart& part) {
  Broadcast<Event>::Receiver receiver = part.bus.events.subscribe();
  observe::LogEvery every(lag_warning_period);
  const unsigned shard = part.machine.shard.index();
  const observe::Gauge depth = metrics_.depth_gauge("events");
  for (std::uint64_t lost = 0;;) {
    depth.set(shard, static_cast<std::int64_t>(part.bus.events.waiting()));
    auto event = co_await receiver.recv(call);
    // Events that were lost on their way to this shard count as lag, like those that arrived and were missed.
    if (const std::uint64_t more = bus_.lost(shard) - lost; more > 0) {
      lost += more;
      metrics_.count_lag("events", "event-log", shard, more);
    }
    if (!event && event.error().code == ErrorCode::lagged) {
      metrics_.count_lag("events", "event-log", shard, receiver.missed());
      if (auto held = every.due(part.machine.shard.now()))
        part.log.warn("events lag", {{"missed", receiver.missed()}, {"held_back", *held}});
      continue;
    }
    if (!event) co_return;
    log_event(part.log, *event);
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): parts outlive their tasks
Task<> Node::drain_shard(Call call, ShardPart& part, std::function<void(DrainResult)> done) {
  DrainResult result;
  try {
    result = co_await part.bus.drain.finish(call, part.connections);
  } catch (const std::exception& problem) {
    // All connections have ended, one of them with an exception. Whatever it was, the process still has to
    // end.
    part.pipeline.broke(problem.what());
  } catch (...) {
    part.pipeline.broke("not a std::exception");
  }
  for (std::size_t i = 0; i < result.aborted; ++i)
    metrics_.tasks_aborted.at(metrics_.kind_index("connection")).add(part.machine.shard.index());
  if (result.aborted > 0)
    part.log.warn("connections were cut: the drain ended before their answers",
                  {{"connections", result.aborted}});
  done(std::move(result));
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): parts outlive their tasks
Task<> Node::leave_shard(Call call, ShardPart& part, bool aborted, std::function<void(DrainResult)> done) {
  DrainResult result;
  Scope& attending = part.attending;
  const Drain& drain = part.bus.drain;
  try {
    if (aborted && part.server.connections() > 0)
      (void)co_await attending.join(call.within(last_look).by(drain.abandoned_at()));
    part.server.leave();
    if (!co_await attending.join(call.within(last_look).by(drain.orderly_until()))) {
      attending.abort();
      if (!co_await attending.join(call.by(drain.abandoned_at())))
        attending.for_each_task([&](const TaskInfo& task) { result.still_alive.emplace_back(task.name); });
    }
  } catch (const std::exception& problem) {
    part.pipeline.broke(problem.what());
  } catch (...) {
    part.pipeline.broke("not a std::exception");
  }
  done(std::move(result));
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): parts outlive their tasks
Task<> Node::run_stop(Call call, ShardPart& part) {
  try {
    co_await part.pipeline.service().stop(call);
  } catch (const std::exception& problem) {
    part.log.error("the stop failed", {{"what", problem.what()}});
  } catch (...) {
    part.log.error("the stop failed", {{"what", "not a std::exception"}});
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): parts outlive their tasks
Task<> Node::stop_shard(Call call, ShardPart& part, std::function<void(DrainResult)> done) {
  DrainResult result;
  // No request can come any more, from inside the process neither: a worker ends when no request waits for a
  // turn.
  part.pipeline.close();
  part.background.drain(StopReason::draining);
  co_await end_tasks(part.control.call(), part.bus.drain, part.background, result);
  // The service's tasks end only now, because requests of other shards may have needed them to the last.
  part.tasks.drain(StopReason::draining);
  co_await end_tasks(part.control.call(), part.bus.drain, part.tasks, result);
  if (std::exchange(part.started, false) && result.still_alive.empty()) {
    part.stopping.spawn("stop", run_stop(part.stopping.call().by(call.deadline()), part));
    if (!co_await part.stopping.join(call)) {
      result.aborted = 1;
      part.stopping.abort();
      if (!co_await part.stopping.join(part.control.call().by(part.bus.drain.abandoned_at())))
        result.still_alive.emplace_back("stop");
    }
  }
  co_await part.peers.close(part.control.call().by(part.bus.drain.abandoned_at()));
  done(std::move(result));
}

}  // namespace cairn::serve
