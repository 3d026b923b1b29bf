#include "storage_scenario.h"

#include "config/load.h"
#include "crypto/blake3.h"
#include "storage_caller.h"

namespace cairn::simulator {
namespace {

struct Declarations {
  config::Schema schema;
  storage::Keys keys = storage::declare_keys(schema);
};
const Declarations& declarations() {
  static const Declarations made;
  return made;
}

void declare_probes(io::sim::Probes& probes) {
  probes.declare({"sim.429_queue",
                  "sim.408",
                  "sim.413",
                  "sim.500_disk",
                  "sim.503_draining",
                  "sim.503_starting",
                  "sim.503_degraded",
                  "sim.504_queued",
                  "sim.504_running",
                  "sim.507",
                  "sim.client_gone_cancels",
                  "sim.drained_before_its_jobs",
                  "sim.drain_with_inflight",
                  "sim.drained",
                  "sim.drain_deadline_abort",
                  "sim.second_signal_abort",
                  "sim.start_failed",
                  "sim.reload",
                  "sim.converged",
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
                  "storage.upload_gap",
                  "storage.upload_committed",
                  "storage.upload_aborted",
                  "storage.upload_seen",
                  "storage.rot_502",
                  "storage.scrubbed",
                  "storage.cut_short"});
}

Plan draw(std::uint64_t seed) {
  Plan plan = draw_plan(seed);
  Random random(seed * 0x9e3779b97f4a7c15u + 71);
  plan.shards.resize(1);
  plan.limits.resize(1);
  plan.publish = false;
  plan.weights = draw_weights(random, StorageCaller::usual_visits);
  if (!plan.tiny && random.chance(1, 2)) plan.limits[0].body = 4 << 20;
  plan.think = plan.think * 2;
  plan.patience = plan.patience + Duration::seconds(1);
  // One write that fails fences a store until somebody starts it again: seldom, or nothing else is seen.
  plan.disk.write_error /= 50;
  plan.disk.sync_error /= 15;
  plan.disk.stall /= 10;
  // A disk that gives back what was there before, or writes elsewhere, can make a durable tail look torn; so
  // can one whose torn append takes along what shared its sector (docs/formats/segment-log.md).
  plan.disk.rot /= 10;
  plan.disk.misdirected_read = plan.disk.misdirected_write = plan.disk.stale_read = 0;
  plan.disk.powersafe_overwrite = true;
  // Lanes that are soon full: whoever meets one waits, and nothing else comes of it.
  if (random.chance(1, 2)) {
    for (LaneSize& lane : plan.pool.lanes) lane = {1, 1 + static_cast<std::size_t>(random.below(3))};
    if (random.chance(1, 2)) plan.pool.full = 1 + static_cast<std::uint32_t>(random.below(300'000));
  }
  return plan;
}

}  // namespace

std::span<const Sample> samples() {
  static const std::vector<Sample> all = [] {
    constexpr std::size_t sizes[small_samples + large_samples] = {
        0,      1,       17,      1000,    4096,    5000,     65'535,   65'536,    65'537,   70'000,
        99'999, 131'072, 131'073, 200'000, 3,       64,       900,      2048,      10'000,   30'000,
        40'000, 50'000,  80'000,  300'000, 1 << 20, 1048'577, 1048'575, 1'600'000, 2'200'000};
    std::vector<Sample> made;
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      Sample sample;
      sample.bytes = noise(i * 977, sizes[i]);
      sample.address = crypto::hash_object(as_bytes(sample.bytes));
      sample.name = format_address(sample.address);
      made.push_back(std::move(sample));
    }
    return made;
  }();
  return all;
}

Holdings::Holdings(std::uint64_t seed)
    : kv_({.compact_above = 16u << 10}),
      presence_(samples().size(), Register(absent)),
      pins_(samples().size(), Register(loose)) {
  Random random(seed + 5);
  options_.data_dirs = {"data0"};
  if (random.chance(1, 3)) options_.data_dirs.emplace_back("data1");
  options_.segment_size = std::uint64_t{4} << (20 + random.below(3));
  // A large one has large pages.
  options_.cache_bytes = std::uint64_t{1} << (random.chance(1, 16) ? 26 : 20 + random.below(2));
  options_.reserve = random.chance(1, 2) ? 0 : 64u << 10;
  if (random.chance(1, 4)) options_.uploads_ttl = Duration::seconds(3);
}

const storage::Keys& Holdings::keys() { return declarations().keys; }

config::SnapshotPtr Holdings::load_storage(const Limits& limits, std::uint64_t version) {
  config::Sources sources = sources_of(limits);
  sources.settings.push_back({"safety.danger_ok", "true"});  // for bodies of several parts
  auto snapshot = config::load(declarations().schema, sources, version);
  CHECK(snapshot.has_value());
  return *snapshot;
}

void Holdings::settle_all(Instant now) {
  for (Register& one : presence_) one.settle(now);
  for (Register& one : pins_) one.settle(now);
}

StorageScenario::StorageScenario(std::uint64_t seed, Options options, io::sim::Probes& probes)
    : Scenario(seed, draw(seed), options, probes), Holdings(seed) {
  declare_probes(world().probes());
}

std::unique_ptr<serve::Service> StorageScenario::make_service(Server&) { return make_storage(); }

const config::ServerKeys& StorageScenario::server_keys(unsigned) const noexcept { return keys().server; }

config::SnapshotPtr StorageScenario::load(unsigned, const Limits& limits, std::uint64_t version) const {
  return load_storage(limits, version);
}

void StorageScenario::add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) {
  StorageCaller& caller = machine.make<StorageCaller>(*this, *this, machine.machine(), number, seed);
  machine.scope().spawn("visitor", caller.live(machine.scope().call()));
}

// Whatever was still on its way has arrived by then, and its deadline has passed.
void StorageScenario::settle() {
  run_for(Duration::millis(servers().front()->most().request_ms) + Duration::seconds(2));
  settle_all(world().now());
}

}  // namespace cairn::simulator
