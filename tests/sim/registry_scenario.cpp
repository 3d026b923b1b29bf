#include "registry_scenario.h"

#include <fmt/format.h>

#include "config/load.h"
#include "registry_caller.h"

namespace cairn::simulator {
namespace {

struct Declarations {
  config::Schema schema;
  registry::Keys keys = registry::declare_keys(schema);
};
const Declarations& declarations() {
  static const Declarations made;
  return made;
}

// One of one, or two of three.
const registry::Founding& founding_of(std::uint64_t seed) {
  static const registry::Founding one(1, {1}, 3), many(2, {1, 2, 3}, 3);
  return seed % 2 == 0 ? one : many;
}

void declare_probes(io::sim::Probes& probes) {
  probes.declare({"sim.429_queue",
                  "sim.500_disk",
                  "sim.503_draining",
                  "sim.503_starting",
                  "sim.503_degraded",
                  "sim.504_running",
                  "sim.507",
                  "sim.client_gone_cancels",
                  "sim.drain_with_inflight",
                  "sim.drained",
                  "sim.second_signal_abort",
                  "sim.start_failed",
                  "sim.reload",
                  "sim.clock_skew",
                  "sim.converged",
                  "registry.proposed",
                  "registry.approved",
                  "registry.approved_again",
                  "registry.committed",
                  "registry.committed_before",
                  "registry.superseded",
                  "registry.lost_the_race",
                  "registry.no_quorum",
                  "registry.bad_signature",
                  "registry.read_version",
                  "registry.pruned",
                  "registry.not_yet",
                  "registry.read_log",
                  "registry.checkpoint",
                  "registry.consistent",
                  "registry.poll_told",
                  "registry.poll_over",
                  "registry.followed",
                  "registry.resumed",
                  "registry.lagged",
                  "registry.stream_ended",
                  "registry.verified"});
}

Plan draw(std::uint64_t seed) {
  Plan plan = draw_plan(seed);
  Random random(seed * 0x9e3779b97f4a7c15u + 73);
  plan.shards.resize(1);
  plan.limits.resize(1);
  plan.publish = false;
  plan.weights = draw_weights(random, RegistryCaller::usual_visits);
  plan.weights[0] += 10;
  plan.think = plan.think * 4;
  // So small that a few heads fill it: who does not read misses some.
  if (random.chance(1, 3)) plan.network.window = 512 + static_cast<std::size_t>(random.below(512));
  // Bodies are small here: limits on them are others' business.
  plan.limits[0].body = 1 << 20;
  // One write that fails fences the log until somebody starts it again: seldom, or nothing else is seen.
  plan.disk.write_error /= 50;
  plan.disk.sync_error /= 15;
  plan.disk.stall /= 10;
  // With bytes that change at rest a durable tail may look torn, and nothing is signed over damage.
  plan.disk_lies = false;
  plan.disk.rot = plan.disk.misdirected_read = plan.disk.misdirected_write = plan.disk.stale_read = 0;
  plan.disk.powersafe_overwrite = true;  // as the segment log asks of a disk
  return plan;
}

}  // namespace

Governance::Governance(std::uint64_t seed) : founding_(founding_of(seed)) {
  Random random(seed + 7);
  if (random.chance(1, 4)) ttl_ = Duration::seconds(3);
  prunes_ = random.chance(1, 4);
  if (random.chance(1, 2)) channel_bound_ = 1 + static_cast<std::int64_t>(random.below(4));
  if (prunes_ || random.chance(1, 2)) segment_size_ = 64u << 10;
}

std::unique_ptr<serve::Service> Governance::make_registry(const Limits& limits) const {
  registry::Options options = registry::read_options(*load_registry(limits, 0), keys(), "registry");
  options.registry.segment_size = segment_size_;
  options.registry.reserve = 0;
  options.registry.genesis = founding_.genesis;
  options.registry.log_key = founding_.log_key;
  return registry::make_service(std::move(options), keys());
}

const registry::Keys& Governance::keys() { return declarations().keys; }

config::SnapshotPtr Governance::load_registry(const Limits& limits, std::uint64_t version) const {
  config::Sources sources = sources_of(limits);
  sources.settings.push_back({"bus.channel_bound", std::to_string(channel_bound_)});
  sources.settings.push_back({"proposals.ttl", fmt::format("{}s", ttl_.ns / 1'000'000'000)});
  sources.settings.push_back({"storage.checkpoint_interval", "5s"});
  if (prunes_) {
    sources.settings.push_back({"retention.policy", "by-count"});
    sources.settings.push_back({"retention.max_count", "3"});
  }
  auto snapshot = config::load(declarations().schema, sources, version);
  CHECK(snapshot.has_value());
  return *snapshot;
}

std::uint64_t Governance::healed_at() {
  if (!healed_at_) healed_at_ = witness_.newest();
  return *healed_at_;
}

RegistryScenario::RegistryScenario(std::uint64_t seed, Options options, io::sim::Probes& probes)
    : Scenario(seed, draw(seed), options, probes), Governance(seed) {
  declare_probes(world().probes());
}

std::unique_ptr<serve::Service> RegistryScenario::make_service(Server& server) {
  return make_registry(server.least());
}

const config::ServerKeys& RegistryScenario::server_keys(unsigned) const noexcept { return keys().server; }

config::SnapshotPtr RegistryScenario::load(unsigned, const Limits& limits, std::uint64_t version) const {
  return load_registry(limits, version);
}

void RegistryScenario::add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) {
  RegistryCaller& caller = machine.make<RegistryCaller>(*this, *this, machine.machine(), number, seed);
  machine.scope().spawn("visitor", caller.live(machine.scope().call()));
}

// A subscriber that has vanished is noticed by TCP alone, sooner or later: now.
void RegistryScenario::healed() { world().network().reset_all(servers().front()->node().index()); }

// Whatever was still on its way has arrived by then.
void RegistryScenario::settle() {
  run_for(Duration::millis(servers().front()->most().request_ms) + Duration::seconds(1));
}

namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the audit waits for it
Task<> verify(Call call, io::Machine& machine, format::TrustRoots roots,
              std::optional<Result<registry::VerifyReport>>& out) {
  out.emplace(co_await registry::verify_directory(call, machine, "registry", std::move(roots)));
}

}  // namespace

void Governance::audit_directory(Scenario& scenario, Server& server) {
  std::optional<Result<registry::VerifyReport>> report;
  std::optional<io::Machine> machine;
  server.inspect([&](io::sim::Node& node) {
    machine.emplace(node.machine());
    node.scope().spawn("verify", verify(node.scope().call(), *machine, founding_.roots, report));
  });
  scenario.world().run_until([&] { return report.has_value(); }, Duration::seconds(60));
  if (!report) return scenario.violate("the directory's check has no end");
  if (!*report)
    return scenario.violate(fmt::format("the directory cannot be read: {}", report->error().context));
  const registry::VerifyReport& found = **report;
  if (found.bad_version)
    return scenario.violate(fmt::format("version {} on disk is bad: {}", *found.bad_version, found.why));
  if (found.versions <= witness_.newest())
    return scenario.violate(
        fmt::format("{} versions on disk, version {} was told", found.versions, witness_.newest()));
  if (!witness_.roots().empty() && found.checkpoint_size < witness_.roots().rbegin()->first)
    return scenario.violate(fmt::format("the checkpoint on disk has size {}, one with size {} was told",
                                        found.checkpoint_size, witness_.roots().rbegin()->first));
  if (!found.approvals_checked && !prunes_) return scenario.violate("approvals could not be checked");
  scenario.hit("registry.verified");
}

}  // namespace cairn::simulator
