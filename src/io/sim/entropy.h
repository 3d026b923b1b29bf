// The simulated source of unpredictable bytes: predictable, so that keys and nonces repeat with the run.
#pragma once

#include <cstring>

#include "io/machine.h"
#include "runtime/random.h"

namespace cairn::io::sim {

class SimEntropy final : public Entropy {
 public:
  explicit SimEntropy(std::uint64_t seed) noexcept : random_(seed) {}

  void fill(MutableByteView out) noexcept override {
    while (!out.empty()) {
      const std::uint64_t word = random_.next();
      const std::size_t count = out.size() < sizeof word ? out.size() : sizeof word;
      std::memcpy(out.data(), &word, count);
      out = out.subspan(count);
    }
  }

 private:
  Random random_;
};

}  // namespace cairn::io::sim
