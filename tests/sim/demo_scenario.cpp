#include "demo_scenario.h"

#include <fmt/format.h>

#include "config/load.h"
#include "demo/service.h"
#include "runtime/wait.h"
#include "visitor.h"

namespace cairn::simulator {
namespace {

// Made once and shared by all seeds.
struct Declarations {
  config::Schema schema;
  demo::Keys keys = demo::declare_keys(schema);
};
const Declarations& declarations() {
  static const Declarations made;
  return made;
}

// What a run of many seeds must have met. The world's own faults are declared by its parts.
void declare_probes(io::sim::Probes& probes) {
  probes.declare({"sim.429_at_the_door",
                  "sim.429_reserved",
                  "sim.429_quota",
                  "sim.429_inflight",
                  "sim.429_queue",
                  "sim.408",
                  "sim.413",
                  "sim.431",
                  "sim.500_disk",
                  "sim.503_draining",
                  "sim.503_starting",
                  "sim.504_queued",
                  "sim.504_running",
                  "sim.client_gone_cancels",
                  "sim.pipelined",
                  "sim.100_continue",
                  "sim.linger",
                  "sim.drain_with_inflight",
                  "sim.drain_idle",
                  "sim.drained",
                  "sim.drain_deadline_abort",
                  "sim.second_signal",
                  "sim.second_signal_abort",
                  "sim.reload",
                  "sim.rebind",
                  "sim.health_listener",
                  "sim.clock_skew",
                  "sim.client_power_cut",
                  "sim.client_gave_up",
                  "sim.published",
                  "sim.publish_failed",
                  "sim.not_ready",
                  "sim.half_closed_answered",
                  "sim.silent_closed",
                  "sim.closed_behind_malformed",
                  "sim.flood_health_answered",
                  "sim.http_1_0",
                  "sim.converged"});
}

}  // namespace

const std::string& served_file() {
  static const std::string text = [] {
    std::string bytes(10'000, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('A' + i % 23 + i / 1000);
    return bytes;
  }();
  return text;
}

DemoScenario::DemoScenario(std::uint64_t seed, Options options, io::sim::Probes& probes)
    : Scenario(seed, draw_plan(seed), options, probes), publications_(plan().shards.size()) {
  declare_probes(world().probes());
}

std::unique_ptr<serve::Service> DemoScenario::make_service(Server&) { return demo::make_service("www"); }

const config::ServerKeys& DemoScenario::server_keys(unsigned) const noexcept {
  return declarations().keys.server;
}

config::SnapshotPtr DemoScenario::load(unsigned, const Limits& limits, std::uint64_t version) const {
  config::Sources sources = sources_of(limits);
  sources.settings.push_back({"demo.files", "www"});
  auto snapshot = config::load(declarations().schema, sources, version);
  CHECK(snapshot.has_value());
  return *snapshot;
}

void DemoScenario::add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) {
  Visitor& visitor = machine.make<Visitor>(*this, machine.machine(), number, seed);
  machine.scope().spawn("visitor", visitor.live(machine.scope().call()));
}

void DemoScenario::furnish(io::sim::SimDisk& disk) { disk.put("www/a.bin", served_file()); }

Task<> DemoScenario::accompany(Call call, Server& server, io::Machine& machine) {
  Random random(this->random().next());
  while (!server.draining() && !call.stopped()) {
    const auto pause = static_cast<std::int64_t>(random.below(1500));
    if (!co_await sleep_for(call, Duration::millis(50 + pause))) break;
    // Without a deadline: an operation left behind could still happen, in the middle of the next version.
    const Result<> done = co_await publish(call, machine.disk, machine.slab, publication(server));
    hit(done ? io::sim::Tag("sim.published") : io::sim::Tag("sim.publish_failed"));
  }
}

void DemoScenario::look_at_disk(Server& server, bool power) {
  if (plan().disk_lies) return;
  const std::string& name = server.name();
  Publication& publication = this->publication(server);
  const io::sim::Image& view = server.node().disk().view();
  if (view.text("www/a.bin") != served_file())
    violate(fmt::format("{}: a file that nobody wrote to changed in a crash", name));
  if (!plan().publish) return;
  const std::uint64_t least = power ? publication.durable : publication.visible;
  const std::string path = std::string("www/") + published_name;
  if (view.find(path) == nullptr) {
    if (least > 0) violate(fmt::format("{}: version {} is gone after a crash", name, least));
    return;
  }
  const auto version = read_published(view.text(path));
  if (!version)
    violate(fmt::format("{}: half a version is seen after a crash", name));
  else if (*version < least || *version > publication.started)
    violate(fmt::format("{}: version {} after a crash, {} expected", name, *version, least));
  else
    publication.visible = *version;
  if (version && power) publication.durable = *version;
}

}  // namespace cairn::simulator
