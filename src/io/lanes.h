// The lanes of a process's pool: one table for the real one and the simulated one.
#pragma once

#include "runtime/pool.h"

namespace cairn::io {

// read, commit, index, upkeep, cpu, dns; and a thread for each PoolSeat, if those are more
inline constexpr LaneSizes lane_sizes{{{2, 256}, {1, 256}, {2, 256}, {2, 256}, {1, 64}, {1, 64}}};

}  // namespace cairn::io
