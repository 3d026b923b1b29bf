// Lane: a kind of blocking work. Lanes keep kinds apart: each has threads and a bounded queue of its own. A
// lane with more seats (PoolSeat) than threads gets a thread for each seat.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/declaration.h"

namespace cairn {

enum class Lane : std::uint8_t { read, commit, index, upkeep, cpu, dns };
inline constexpr std::size_t lane_count = 6;

inline constexpr std::array<LaneDeclaration, lane_count> lane_declarations{{
    {"read", 2, 256, "what requests read"},
    {"commit", 1, 256, "the steps of committers on their logs"},
    {"index", 2, 256, "what committers, and the tasks that tend a store, ask the index"},
    {"upkeep", 2, 256,
     "what tasks do to files (flush, remove, rename, close), and the small files of the process"},
    {"cpu", 1, 64, "work that no answer waits for; it leaves the cores to everything else"},
    {"dns", 1, 64, "names"},
}};

struct LaneSize {
  unsigned threads = 1;  // 0: the callers of ThreadPool::try_take() do the work
  std::size_t queue = 256;
};
using LaneSizes = std::array<LaneSize, lane_count>;  // by Lane

constexpr LaneSizes sizes_of(std::span<const LaneDeclaration, lane_count> lanes) noexcept {
  LaneSizes sizes{};
  for (std::size_t i = 0; i < lane_count; ++i)
    sizes[i] = {static_cast<unsigned>(lanes[i].threads), static_cast<std::size_t>(lanes[i].queue)};
  return sizes;
}
constexpr const char* name_of(Lane lane) noexcept {
  return lane_declarations[static_cast<std::size_t>(lane)].name.data();
}

}  // namespace cairn
