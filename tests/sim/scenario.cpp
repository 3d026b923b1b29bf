#include "scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace cairn::simulator {
namespace {

constexpr Duration converge_within = Duration::seconds(40);
constexpr Duration tick = Duration::millis(100);

}  // namespace

std::string format_corr(std::uint32_t id) { return fmt::format("req-{:08}", id); }

Scenario::Scenario(std::uint64_t seed, Plan plan, Options options, io::sim::Probes& probes)
    : seed_(seed),
      options_(options),
      probes_(probes),
      plan_(std::move(plan)),
      random_(seed ^ 0x5eed5eed5eed5eedu),
      world_(std::make_unique<io::sim::World>(seed)) {
  requests_.emplace_back();  // 0 is no request
  for (unsigned i = 0; i < 61 && options.plant_pointer; ++i) {
    marks_.push_back(std::make_unique<unsigned>(i));
    marked_.insert(marks_.back().get());
  }
}

Scenario::~Scenario() {
  world_->stop();
  world_.reset();
}

// --- for the parts

std::uint32_t Scenario::open_request(unsigned server, bool once) {
  Request& request = requests_.emplace_back();
  request.server = server;
  request.once = once;
  request.life = life_behind(server);
  request.issued = world_->now();
  return static_cast<std::uint32_t>(requests_.size() - 1);
}

Request* Scenario::find_request(std::string_view corr) {
  if (corr.size() != 12 || !corr.starts_with("req-")) return nullptr;
  std::size_t id = 0;
  for (const char c : corr.substr(4)) id = id * 10 + static_cast<std::size_t>(c - '0');
  return id < requests_.size() ? &requests_[id] : nullptr;
}

void Scenario::violate(std::string what) {
  if (violation_.empty()) violation_ = fmt::format("{} ms: {}", world_->now().ns / 1'000'000, what);
}

void Scenario::complained_of(Server& server) {
  const auto after = static_cast<std::int64_t>(random_.below(3000));
  if (phase_ == Phase::faults && after > 1500) return;
  world_->after(Duration::millis(after / 4), [this, &server, life = server.lives()] {
    if (phase_ <= Phase::healing && server.up() && server.lives() == life) server.drain();
  });
}

bool Scenario::any_leaves() const noexcept {
  return std::any_of(servers_.begin(), servers_.end(),
                     [](const auto& server) { return server->draining() || !server->up(); });
}

Instant Scenario::last_drain() const noexcept {
  Instant last{-1};
  for (const auto& server : servers_) last = std::max(last, server->last_drain());
  return last;
}

// The order of a set of pointers, or the real time: what must never decide anything here.
Duration Scenario::planted_noise() {
  if (options_.plant_pointer) {
    std::int64_t order = 0;
    for (const unsigned* mark : marked_) order = order * 31 % 1'000'003 + *mark;
    return Duration::nanos(order);
  }
  if (!options_.plant_clock) return {};
  return Duration::nanos(std::chrono::steady_clock::now().time_since_epoch().count() % 1'000'003);
}

// --- the phases

void Scenario::build() {
  for (unsigned i = 0; i < plan_.shards.size(); ++i) {
    servers_.push_back(std::make_unique<Server>(*this, i, plan_.shards[i], plan_.limits[i]));
    servers_.back()->start();
    servers_.back()->node().pool_faults = plan_.pool;
  }
  pending_.resize(plan_.visitors);
  for (unsigned machine = 0; machine < plan_.client_machines; ++machine) {
    auto boot = [this, machine](io::sim::Node& node) {
      for (unsigned i = machine; i < plan_.visitors; i += plan_.client_machines)
        add_client(node, i, seed_ * 1000 + i + 100 * node.lives());
    };
    client_machines_.push_back(&world_->add_node(fmt::format("c{}", machine), 1, boot));
  }
}

void Scenario::watch() {
  for (auto& server : servers_) server->check_bounds();
  if (phase_ != Phase::over) world_->after(tick, [this] { watch(); });
}

// In slices, so that a violation ends the run near to where it happened.
void Scenario::run_for(Duration span) {
  const Instant end = world_->now() + span;
  while (world_->now() < end && !violated()) world_->run_until(std::min(end, world_->now() + tick * 5));
}

void Scenario::heal() {
  phase_ = Phase::healing;
  healed_since_ = world_->now();
  io::sim::SimNetwork& network = world_->network();
  network.faults = {};
  network.heal();
  for (auto& server : servers_) {
    io::sim::SimDisk& disk = server->node().disk();
    disk.faults = {};
    disk.heal();
    disk.set_capacity(std::uint64_t{1} << 40);
    if (server->node().up() && server->node().paused()) world_->resume(server->node());
    // Who is draining comes back by itself.
    if (!server->up()) server->restart();
  }
  for (io::sim::Node* client : client_machines_)
    if (!client->up()) world_->restart(*client);
  for (unsigned i = 0; i < plan_.visitors; ++i) waiting_.insert(i);
  healed();
}

void Scenario::converge() {
  const Instant limit = world_->now() + converge_within;
  while (!waiting_.empty() && !violated() && world_->now() < limit) world_->run_for(tick);
  if (waiting_.empty()) {
    hit("sim.converged");
  } else {
    std::string why;
    for (unsigned i = 0; i < plan_.visitors; ++i)
      if (waiting_.contains(i)) why += fmt::format("\n  visitor {} waits for {}", i, pending_[i]);
    for (auto& server : servers_) why += "\n  " + server->describe();
    violate(fmt::format("not converged {} s after the healing:{}", converge_within.ns / 1'000'000'000, why));
  }
}

void Scenario::drain_all() {
  phase_ = Phase::draining;
  for (auto& server : servers_)
    world_->after(Duration::millis(static_cast<std::int64_t>(random_.below(500))),
                  [&one = *server] { one.drain(); });
  const Instant limit = world_->now() + Duration::seconds(10);
  const auto any_up = [&] {
    for (auto& server : servers_)
      if (server->up()) return true;
    return false;
  };
  while (any_up() && !violated() && world_->now() < limit) world_->run_for(tick);
  if (violated()) return;
  for (auto& server : servers_)
    if (server->up()) violate(fmt::format("a drain has no end: {}", server->describe()));
  phase_ = Phase::over;
  const Instant end = world_->now() + plan_.patience + Duration::seconds(2);
  const auto visitors = [&] {
    std::size_t sum = 0;
    for (io::sim::Node* client : client_machines_) sum += client->live_tasks();
    return sum;
  };
  while (visitors() > 0 && !violated() && world_->now() < end) world_->run_for(tick);
  if (visitors() > 0) violate(fmt::format("{} visitors still wait after everything has ended", visitors()));
}

void Scenario::audit_requests() {
  for (std::size_t id = 1; id < requests_.size(); ++id) {
    const Request& request = requests_[id];
    if (request.once && request.done > 1)
      violate(fmt::format("{} was done {} times", format_corr(static_cast<std::uint32_t>(id)), request.done));
    if (request.once && request.passed > 1)
      violate(fmt::format("{} was passed on {} times", format_corr(static_cast<std::uint32_t>(id)),
                          request.passed));
  }
}

Report Scenario::run() {
  build();
  watch();
  run_for(plan_.warm_up);
  if (!violated()) {
    phase_ = Phase::faults;
    calm_since_ = Instant::never();
    world_->network().faults = plan_.network;
    for (auto& server : servers_) server->node().disk().faults = plan_.disk;
    faults_ = schedule_faults(*this, client_machines_, world_->now() + plan_.faults);
    run_for(plan_.faults);
  }
  if (!violated()) {
    heal();
    converge();
  }
  if (!violated()) settle();
  if (!violated()) {
    phase_ = Phase::calm;
    calm_since_ = world_->now();
    run_for(plan_.calm);
  }
  if (!violated()) drain_all();
  if (!violated()) audit_requests();
  if (!violated()) audit();
  phase_ = Phase::over;
  Report report;
  report.seed = seed_;
  report.steps = world_->steps();
  report.completed = completed_;
  report.simulated = world_->now() - Instant{};
  report.violation = violation_;
  if (options_.verbose) {
    fmt::print("{} nodes, {} visitors on {} machines, {}, {} kinds of chaos\n", plan_.shards.size(),
               plan_.visitors, plan_.client_machines, plan_.tiny ? "tiny limits" : "default limits",
               plan_.chaos.size());
    for (auto& server : servers_) fmt::print("{}\n", server->describe());
  }
  world_->stop();
  report.hash = world_->hash();
  probes_.add(world_->probes());
  return report;
}

}  // namespace cairn::simulator
