// Plan: what one seed is made of: how many of everything, which limits, which faults, which requests. Drawn
// as a swarm: each feature is off in many seeds, so that the others get room.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "config/load.h"
#include "io/sim/disk.h"
#include "io/sim/network.h"
#include "runtime/random.h"

namespace cairn::simulator {

// What a node's configuration says.
struct Limits {
  std::int64_t conns = 1024, per_ip = 256, inflight = 512, rps = 500, work = 512;
  std::int64_t body = 1 << 20, head = 32 << 10;
  std::int64_t read_ms = 5000, write_ms = 5000, idle_ms = 60'000, request_ms = 5000, drain_ms = 3000;

  bool refuses() const noexcept {
    return conns < 64 || per_ip < 64 || inflight < 64 || rps < 200 || work < 64;
  }
  bool few_connections() const noexcept { return conns < 64 || per_ip < 64; }
};
Limits draw_limits(Random& random, bool tiny);
config::Sources sources_of(const Limits& limits);

enum class Visit : std::uint8_t {
  memory,
  file,
  echo,
  job,
  stream,
  health,
  metrics,
  unknown,
  wrong_method,
  malformed,
  slow_head,
  slow_body,
  pipeline,
  expect,
  half_close,
  silent,
  oversized,
  flood,
  abandon,
  old_version,
  count_
};
constexpr std::size_t visit_count = static_cast<std::size_t>(Visit::count_);

enum class Chaos : std::uint8_t {
  cut_one_way,
  cut_both_ways,
  freeze,
  pause,
  power_cut,
  kill,
  graceful_restart,
  second_signal,
  reset_all,
  vanish_all,
  skew,
  disk_stall,
  disk_nth_call,
  disk_rot,
  disk_full,
  reload,
  rebind,
  client_power_cut,
  count_
};
constexpr std::size_t chaos_count = static_cast<std::size_t>(Chaos::count_);

struct Plan {
  std::vector<unsigned> shards;  // of each node
  unsigned client_machines = 1;
  unsigned visitors = 4;
  bool tiny = false;
  std::vector<Limits> limits;  // of each node
  unsigned workers = 8;
  bool publish = true;
  bool disk_lies = false;  // reads or writes may silently be wrong: bytes of files are not judged
  bool disk_fails = false;
  std::vector<std::uint32_t> weights;  // of what clients ask for
  std::vector<Chaos> chaos;            // what may happen; drawn from evenly
  Duration chaos_gap = Duration::seconds(1);
  io::sim::NetworkFaults network{};
  io::sim::DiskFaults disk{};
  io::sim::PoolFaults pool{};  // also when all else is well
  Duration warm_up = Duration::seconds(3), faults = Duration::seconds(15), calm = Duration::seconds(3);
  Duration think = Duration::millis(100);
  Duration patience = Duration::seconds(4);  // of a client with one request
};
// Of the demo. Other kinds take what the world is made of from here, and change what does not fit them.
Plan draw_plan(std::uint64_t seed);
// Some of the usual ones, some more often; the first is always there.
std::vector<std::uint32_t> draw_weights(Random& random, std::span<const std::uint32_t> usual);

}  // namespace cairn::simulator
