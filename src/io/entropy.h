// The kernel's random bytes.
#pragma once

#include "io/machine.h"

namespace cairn::io {

class KernelEntropy : public Entropy {
 public:
  void fill(MutableByteView out) noexcept override;
};

std::uint64_t random_seed() noexcept;

}  // namespace cairn::io
