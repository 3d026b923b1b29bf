// Tracer: records a run for the explorer and the simulator. Production runs without one.
//
// A primitive reports every object a step touches; Two steps that touch no common object, or only read it,
// commute; partial-order reduction relies on that.
#pragma once

#include <cstdint>

namespace cairn {

enum class Access : std::uint8_t { read, write };

class Tracer {
 public:
  virtual ~Tracer() = default;
  virtual void touch(std::uint64_t object, Access access) = 0;
  // Identity of a new object or task: equal in every interleaving of the same program.
  virtual std::uint64_t new_identity() = 0;
};

// The identity under which reading and advancing a shard's clock is traced.
inline constexpr std::uint64_t clock_identity = 1;

}  // namespace cairn
