#include "plan.h"

#include <string>

namespace cairn::simulator {
namespace {

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}
bool half(Random& random) { return random.chance(1, 2); }

std::uint32_t rate(Random& random, std::uint32_t most) {
  return random.chance(2, 3) ? 0 : 1 + static_cast<std::uint32_t>(random.below(most));
}

void draw_network(Random& random, Plan& plan) {
  io::sim::NetworkFaults& net = plan.network;
  net.split_write = rate(random, 200'000);
  net.split_delivery = rate(random, 200'000);
  net.reset = rate(random, 10'000);
  net.vanish = rate(random, 5'000);
  net.silence = rate(random, 30'000);
  net.refuse = rate(random, 50'000);
  net.slow_reader = rate(random, 100'000);
  net.accept_error = rate(random, 200'000);
  net.clog = rate(random, 20'000);
  if (half(random)) net.latency_max = Duration::millis(between(random, 1, 60));
  if (random.chance(1, 3)) net.window = static_cast<std::size_t>(between(random, 512, 8192));
  if (random.chance(1, 3)) net.send_buffer = static_cast<std::size_t>(between(random, 4096, 65'536));
  if (random.chance(1, 4)) net.reopen = net.window;
  if (random.chance(1, 3)) net.backlog = static_cast<std::size_t>(between(random, 1, 3));
}

void draw_disk(Random& random, Plan& plan) {
  io::sim::DiskFaults& disk = plan.disk;
  disk.read_error = rate(random, 20'000);
  disk.write_error = rate(random, 50'000);
  disk.sync_error = rate(random, 50'000);
  disk.cold = rate(random, 500'000);
  disk.stall = rate(random, 20'000);
  disk.stall_for = Duration::millis(between(random, 100, 8000));
  disk.powersafe_overwrite = half(random);
  plan.disk_fails = random.chance(2, 3);
  if (random.chance(1, 4)) {
    plan.disk_lies = true;
    disk.rot = rate(random, 20'000);
    disk.misdirected_read = rate(random, 20'000);
    disk.misdirected_write = rate(random, 100'000);
    disk.stale_read = rate(random, 100'000);
  }
  if (!plan.disk_fails) disk = {};
}

constexpr std::uint32_t usual_visits[visit_count]{30, 20, 20, 20, 4, 8, 1, 4, 2, 4,
                                                  1,  1,  6,  2,  2, 1, 2, 1, 3, 2};

}  // namespace

std::vector<std::uint32_t> draw_weights(Random& random, std::span<const std::uint32_t> usual) {
  std::vector<std::uint32_t> weights;
  for (const std::uint32_t one : usual)
    weights.push_back(random.chance(1, 4) ? 0 : one * static_cast<std::uint32_t>(between(random, 1, 4)));
  weights[0] += 5;
  return weights;
}

Limits draw_limits(Random& random, bool tiny) {
  Limits limits;
  if (tiny) {
    if (half(random)) limits.conns = between(random, 2, 12);
    if (half(random)) limits.per_ip = between(random, 2, 8);
    if (half(random)) limits.inflight = between(random, 1, 8);
    if (half(random)) limits.rps = between(random, 5, 60);
    if (half(random)) limits.work = between(random, 1, 6);
    if (half(random)) limits.body = between(random, 1024, 65'536);
    if (half(random)) limits.head = between(random, 1024, 8192);
  }
  if (half(random)) limits.read_ms = between(random, 300, 1500);
  if (half(random)) limits.write_ms = between(random, 300, 1500);
  if (half(random)) limits.request_ms = between(random, 50, 2000);
  // Whoever is idle when a reload makes connections few must not hold them for a minute.
  if (half(random) || tiny) limits.idle_ms = between(random, 300, 3000);
  limits.drain_ms = between(random, 1000, 5000);
  return limits;
}

config::Sources sources_of(const Limits& limits) {
  config::Sources sources;
  const auto set = [&](const char* key, std::int64_t value, const char* unit) {
    sources.settings.push_back({key, std::to_string(value) + unit});
  };
  set("server.max_conns", limits.conns, "");
  set("server.max_conns_per_ip", limits.per_ip, "");
  set("server.max_inflight", limits.inflight, "");
  set("server.max_rps", limits.rps, "");
  set("queues.work", limits.work, "");
  set("limits.max_body_bytes", limits.body, "B");
  set("limits.max_header_bytes", limits.head, "B");
  set("timeouts.read", limits.read_ms, "ms");
  set("timeouts.write", limits.write_ms, "ms");
  set("timeouts.idle", limits.idle_ms, "ms");
  set("timeouts.request", limits.request_ms, "ms");
  set("timeouts.drain", limits.drain_ms, "ms");
  return sources;
}

Plan draw_plan(std::uint64_t seed) {
  Random random(seed * 0x9e3779b97f4a7c15u + 17);
  Plan plan;
  plan.tiny = half(random);
  const auto nodes = static_cast<unsigned>(between(random, 1, 4));
  for (unsigned i = 0; i < nodes; ++i) {
    plan.shards.push_back(static_cast<unsigned>(between(random, 1, 3)));
    plan.limits.push_back(draw_limits(random, plan.tiny));
  }
  plan.client_machines = static_cast<unsigned>(between(random, 1, 3));
  plan.visitors = static_cast<unsigned>(between(random, 3, 12));
  plan.workers = random.chance(1, 3) ? static_cast<unsigned>(between(random, 1, 2)) : 8;
  plan.publish = half(random);
  plan.weights = draw_weights(random, usual_visits);
  draw_network(random, plan);
  draw_disk(random, plan);
  for (std::size_t i = 0; i < chaos_count; ++i)
    if (random.chance(2, 5)) plan.chaos.push_back(static_cast<Chaos>(i));
  plan.chaos_gap = Duration::millis(between(random, 300, 3000));
  plan.warm_up = Duration::millis(between(random, 1000, 4000));
  plan.faults = Duration::millis(between(random, 6000, 24'000));
  plan.calm = Duration::millis(between(random, 1000, 4000));
  // About the same load whatever the number of visitors.
  plan.think = Duration::millis(between(random, 8, 16) * plan.visitors);
  plan.patience = Duration::millis(between(random, 1500, 8000));
  return plan;
}

}  // namespace cairn::simulator
