#include "gateway_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/load.h"
#include "crypto/macaroon.h"
#include "fixed_randomness.h"
#include "h2_link.h"
#include "http/h2/connection.h"
#include "io/tls_sample.h"
#include "registry_caller.h"
#include "runtime/fair_turns.h"
#include "storage_caller.h"

namespace cairn::simulator {
namespace {

struct Declarations {
  config::Schema schema;
  gateway::Keys keys = gateway::declare_keys(schema);
};
const Declarations& declarations() {
  static const Declarations made;
  return made;
}

void declare_probes(io::sim::Probes& probes) {
  probes.declare({"sim.429_queue",
                  "sim.408",
                  "sim.413",
                  "sim.503_degraded",
                  "sim.client_gone_cancels",
                  "sim.drained",
                  "sim.drain_with_inflight",
                  "sim.drain_deadline_abort",
                  "sim.second_signal_abort",
                  "sim.start_failed",
                  "sim.reload",
                  "sim.converged",
                  "gateway.no_answer",
                  "gateway.breaker_open",
                  "gateway.shed",
                  "gateway.timeout",
                  "gateway.behind_starting",
                  "gateway.behind_draining",
                  "gateway.tls",
                  "gateway.whole_for_range",
                  "storage.put_new",
                  "storage.put_known",
                  "storage.put_large",
                  "storage.put_wrong",
                  "storage.posted",
                  "storage.got",
                  "storage.got_range",
                  "storage.got_many",
                  "storage.not_modified",
                  "storage.not_found",
                  "storage.deleted",
                  "storage.pinned",
                  "storage.pin_refused",
                  "storage.listed",
                  "storage.proved",
                  "storage.upload_begun",
                  "storage.upload_part",
                  "storage.upload_committed",
                  "storage.cut_short",
                  "registry.proposed",
                  "registry.approved",
                  "registry.committed",
                  "registry.committed_before",
                  "registry.lost_the_race",
                  "registry.read_version",
                  "registry.read_log",
                  "registry.checkpoint",
                  "registry.consistent",
                  "registry.poll_told",
                  "registry.followed",
                  "registry.resumed",
                  "registry.stream_ended",
                  "registry.verified"});
}

Limits behind(Limits limits, std::int64_t body) {
  // Connections are kept, and used again for what may be sent only once.
  limits.idle_ms = 60'000;
  limits.request_ms = std::max<std::int64_t>(limits.request_ms, 800);
  limits.body = body;
  return limits;
}

Limits at_the_door(Limits limits) {
  // A time so short that the services behind it fail it in good times would open its breakers.
  limits.request_ms = std::max<std::int64_t>(limits.request_ms, 800);
  return limits;
}

constexpr std::int64_t large_body = 4 << 20;

Plan draw(std::uint64_t seed) {
  Plan plan = draw_plan(seed);
  Random random(seed * 0x9e3779b97f4a7c15u + 79);
  plan.shards = {1 + static_cast<unsigned>(random.below(3)), 1 + static_cast<unsigned>(random.below(2)),
                 1 + static_cast<unsigned>(random.below(2))};
  plan.limits.resize(1);
  plan.limits[0] = at_the_door(plan.limits[0]);
  if (!plan.tiny && random.chance(1, 2)) plan.limits[0].body = large_body;
  for (const std::int64_t body : {large_body, Limits().body})
    plan.limits.push_back(behind(draw_limits(random, false), body));
  plan.publish = false;
  plan.think = plan.think * 2;
  plan.patience = plan.patience + Duration::seconds(1);
  // The gateway is told once where the services are.
  std::erase(plan.chaos, Chaos::rebind);
  // As in the scenarios of the services themselves: what a disk may do is their business.
  plan.disk.write_error /= 50;
  plan.disk.sync_error /= 15;
  plan.disk.stall /= 10;
  plan.disk_lies = false;
  plan.disk.rot = plan.disk.misdirected_read = plan.disk.misdirected_write = plan.disk.stale_read = 0;
  plan.disk.powersafe_overwrite = true;
  return plan;
}

crypto::RootKey root_key() {
  std::array<std::byte, 40> same{};
  same.fill(std::byte{7});
  return crypto::make_root_key(same, WallTime{1});
}

std::string token_of(const char* tenant) {
  crypto::Macaroon token = crypto::mint(root_key(), "cairn", {});
  return crypto::format_token(*crypto::attenuate(std::move(token), fmt::format("tenant = {}", tenant)));
}

// The sum of all cells of a metric whose label text has `with`; those of one name in all cells: "".
double sum_of(std::string_view text, std::string_view name, std::string_view with = {}) {
  double sum = 0;
  for (std::size_t at = 0; (at = text.find(name, at)) != text.npos; at += name.size()) {
    if (text[at - 1] != '\n') continue;
    const char after = text[at + name.size()];
    if (after != '{' && after != ' ') continue;
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (line.find(with) == line.npos) continue;
    sum += std::stod(std::string(line.substr(line.rfind(' ') + 1)));
  }
  return sum;
}

bool is_of_gateway(const Answer& answer) {
  return answer.message == "the gateway is under pressure and sheds such requests" ||
         answer.message == "sched queue is full";
}

}  // namespace

GatewayScenario::GatewayScenario(std::uint64_t seed, Options options, io::sim::Probes& probes)
    : Scenario(seed, draw(seed), options, probes), Holdings(seed), Governance(seed) {
  declare_probes(world().probes());
  Random random(seed + 11);
  verifies_ = random.chance(1, 2);
  storage_weights_ = draw_weights(random, StorageCaller::usual_visits);
  registry_weights_ = draw_weights(random, RegistryCaller::usual_visits);
  registry_weights_[0] += 10;
  links_.resize(plan().client_machines);
  draw_settings(random);
  if (random.chance(1, 2)) {
    root_keys_ = std::make_shared<const serve::KeySnapshot>(1, crypto::KeyRing(root_key()));
    tokens_ = {token_of("alice"), token_of("bob"), ""};
  }
  // One seed in ten, and half of those that the runner runs twice.
  if (seed % 10 != (seed / 20 % 2 == 0 ? 0 : 3)) {
    world().network().protocols[h2_port] = http::h2::protocol;
    return;
  }
  fix_randomness(seed);
  const io::SampleAuthority authority{io::sim::epoch};
  tls_server_ =
      authority.server({.identities = {authority.identity({"s0"})}, .protocols = {"h2", "http/1.1"}});
  tls_client_ = authority.client();
  tls_client_h2_ = authority.client({"h2"});
}

// So few slots that requests wait for their turns; and what else divides the gateway.
void GatewayScenario::draw_settings(Random& random) {
  const auto set = [&](const char* key, std::string value) { settings_.push_back({key, std::move(value)}); };
  if (random.chance(1, 4)) {
    set("pools.workers", "1");
    set("pools.worker_slots", std::to_string(1 + random.below(4)));
    if (plan().tiny && random.chance(1, 2)) set("queues.sched", std::to_string(1 + random.below(2)));
  }
  if (random.chance(1, 4)) set("drr.enabled", "false");
  if (random.chance(1, 2)) set("drr.tenant_quanta", "alice=4");
  // So much that nobody comes to its end: what was used is counted, and kept in a file.
  if (random.chance(1, 2)) set("quota.bytes_per_day", "1GiB");
}

// --- the nodes

std::unique_ptr<serve::Service> GatewayScenario::make_service(Server& server) {
  switch (server.number()) {
    case storage_place:
      return make_storage();
    case registry_place:
      return make_registry(server.least());
    default: {
      const gateway::Keys& keys = declarations().keys;
      const auto snapshot = load(gateway_place, server.least(), 0);
      return gateway::make_service(keys, gateway::read_options(*snapshot, keys, "gateway", plan().shards[0]));
    }
  }
}

const config::ServerKeys& GatewayScenario::server_keys(unsigned server) const noexcept {
  return server == storage_place    ? Holdings::keys().server
         : server == registry_place ? Governance::keys().server
                                    : declarations().keys.server;
}

config::SnapshotPtr GatewayScenario::load(unsigned server, const Limits& limits,
                                          std::uint64_t version) const {
  if (server == storage_place) return load_storage(limits, version);
  if (server == registry_place) return load_registry(limits, version);
  config::Sources sources = sources_of(limits);
  sources.settings.push_back({"safety.danger_ok", "true"});
  sources.settings.push_back({"proxy.verify", verifies_ ? "true" : "false"});
  for (const auto& setting : settings_) sources.settings.push_back(setting);
  auto snapshot = config::load(declarations().schema, sources, version);
  CHECK(snapshot.has_value());
  return *snapshot;
}

std::vector<serve::PeerTarget> GatewayScenario::peers(const Server& server) {
  if (server.number() != gateway_place) return {};
  // The gateway is the first to be made.
  const auto at = [&](Place place) { return io::Endpoint{fmt::format("s{}", +place), server.port(), {}}; };
  return {{"storage", nullptr, at(storage_place)}, {"registry", nullptr, at(registry_place)}};
}

serve::Access GatewayScenario::access(const Server& server) {
  if (server.number() != gateway_place || !root_keys_) return {.open = true};
  return {.keys = root_keys_, .revoke = [](Call, std::string) -> Task<Result<>> { co_return Result<>{}; }};
}

void GatewayScenario::prepare(const Server& server, serve::Node& node, unsigned shard) {
  if (server.number() != gateway_place) return;
  if (tls_server_)
    node.set_tls(shard, tls_server_);
  else
    CHECK(node.listen(shard, {.host = {}, .port = h2_port, .path = {}}).has_value());
}

Limits GatewayScenario::draw_reload(const Server& server, Random& random) const {
  if (server.number() != gateway_place) return behind(draw_limits(random, false), server.least().body);
  Limits limits = at_the_door(draw_limits(random, plan().tiny));
  if (!plan().tiny) limits.body = plan().limits[0].body;
  return limits;
}

// --- the clients

void GatewayScenario::add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) {
  const unsigned place = number % plan().client_machines;
  H2Link* link = nullptr;
  if (number % 3 == 1) {
    auto& [life, known] = links_[place];
    if (known == nullptr || life != machine.lives()) {
      const Server& door = *servers()[gateway_place];
      const std::uint16_t port = tls_server_ ? door.port() : h2_port;
      known = &machine.make<H2Link>(machine, io::Endpoint{door.name(), port, {}, tls_server_ != nullptr},
                                    tls_client_h2_, [this](const std::string& what) { violate(what); });
      life = machine.lives();
    }
    link = known;
    link->join();
  }
  if (tls_server_) hit("gateway.tls");
  const auto begin = [&](Caller& caller, Place behind, const std::vector<std::uint32_t>& weights) {
    caller.go_through(*servers()[behind], link, weights);
    machine.scope().spawn("visitor", caller.live(machine.scope().call()));
  };
  // Both kinds by both protocols.
  if (number % 2 == 0)
    begin(machine.make<StorageCaller>(*this, *this, machine.machine(), number, seed), storage_place,
          storage_weights_);
  else
    begin(machine.make<RegistryCaller>(*this, *this, machine.machine(), number, seed), registry_place,
          registry_weights_);
}

void GatewayScenario::dress(http::ClientRequest& request, unsigned client) {
  if (tokens_.empty()) return;
  const std::string& token = tokens_[client % tokens_.size()];
  if (!token.empty()) request.add_field("Authorization", "Bearer " + token);
}

bool GatewayScenario::explains(const Request& request, const Answer& answer) {
  const bool starting = std::any_of(servers().begin(), servers().end(),
                                    [&](const auto& server) { return server->was_starting(request.issued); });
  const bool shed = answer.code == ErrorCode::degraded && is_of_gateway(answer);
  const bool fine = !was_calm(request) || any_leaves() || starting || (shed && plan().tiny);
  if (!fine) return false;
  switch (answer.status) {
    case 502:
      hit("gateway.no_answer");
      return true;
    case 503:
      if (answer.code == ErrorCode::degraded && !shed) return false;
      hit(answer.code == ErrorCode::breaker_open ? io::sim::Tag("gateway.breaker_open")
          : answer.code == ErrorCode::degraded   ? io::sim::Tag("gateway.shed")
          : answer.message == "still starting"   ? io::sim::Tag("gateway.behind_starting")
                                                 : io::sim::Tag("gateway.behind_draining"));
      return true;
    case 504:
      hit("gateway.timeout");
      return true;
    default:
      return false;
  }
}

// --- what must hold

unsigned GatewayScenario::life_behind(unsigned) const noexcept {
  return const_cast<GatewayScenario*>(this)->servers()[registry_place]->lives();
}

Duration GatewayScenario::answers_within() const noexcept {
  const Limits& most = const_cast<GatewayScenario*>(this)->servers()[gateway_place]->most();
  // A long poll waits up to three seconds, and the body follows the head.
  return Duration::millis(most.request_ms + most.write_ms + 4000);
}

std::string GatewayScenario::find_ill(const Server& keeper) {
  const std::string text = servers()[gateway_place]->metrics_text();
  const auto shards = static_cast<double>(plan().shards[gateway_place]);
  const char* const target = keeper.number() == storage_place ? "storage" : "registry";
  const double closed = sum_of(text, "breaker_state", fmt::format("target=\"{}\",state=\"closed\"", target));
  if (closed != shards)
    return fmt::format("the breaker before {} is closed on {} of {} shards", target, closed, shards);
  if (sum_of(text, "gateway_degraded") != 0) return "something is shed";
  return {};
}

std::string GatewayScenario::find_left(const Server& server, serve::Node& node, bool ended) {
  if (server.number() != gateway_place) return {};
  std::string text = "\n";
  node.series().expose(text);
  for (const char* queue : {"queue=\"work\"", "queue=\"sched\""})
    if (const double depth = sum_of(text, "queue_depth", queue); depth != 0)
      return fmt::format("{} in {}", depth, queue);
  // Who leaves the queue while it ends is forgotten with the queue.
  if (const double waiting = sum_of(text, "gateway_drr_queue_depth"); waiting != 0 && !ended)
    return fmt::format("{} wait for a turn", waiting);
  const auto* const turns = dynamic_cast<const FairTurns*>(server.turnstile());
  if (turns == nullptr) return "no turns of its own";
  if (turns->scheduler().out() != 0) return fmt::format("{} turns are out", turns->scheduler().out());
  if (turns->scheduler().waiting() != 0) return fmt::format("{} wait", turns->scheduler().waiting());
  return {};
}

// A connection that has vanished is noticed by TCP alone, sooner or later: now.
void GatewayScenario::healed() {
  for (const auto& server : servers()) world().network().reset_all(server->node().index());
}

// Whatever was still on its way has arrived by then, and its deadline has passed.
void GatewayScenario::settle() {
  const Duration longest = Duration::millis(servers()[gateway_place]->most().request_ms);
  run_for(std::max(longest, plan().patience) + Duration::seconds(2));
  settle_all(world().now());
  for (const auto& server : servers())
    if (const std::string left = server->find_left(); !left.empty() && !violated())
      violate(fmt::format("{} has nothing to do, and yet: {}", server->name(), left));
}

}  // namespace cairn::simulator
