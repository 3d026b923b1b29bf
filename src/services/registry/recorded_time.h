// The time that records carry, and ids made of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/ulid.h"
#include "format/registry_field.h"
#include "io/machine.h"

namespace cairn::registry {

// Between 1970 and 9999, whatever the clock says, so that records made with it can be read again.
inline WallTime recorded_time(const Shard& shard) noexcept {
  return std::clamp(shard.wall(), WallTime{0}, format::registry_time_max);
}

// For a change that is signed: an error, because a signature must not cover a made-up year.
inline Result<> check_clock(const Shard& shard) noexcept {
  if (recorded_time(shard) == shard.wall()) return {};
  return fail(ErrorCode::degraded, "this machine's clock is before 1970 or after 9999");
}

inline Ulid new_id(io::Machine& machine) noexcept {
  std::array<std::uint64_t, 2> random{};
  machine.entropy.fill(std::as_writable_bytes(std::span(random)));
  return make_ulid(recorded_time(machine.shard), random[0], random[1]);
}

}  // namespace cairn::registry
