#include "io/entropy.h"

#include <sys/random.h>

namespace cairn::io {

void KernelEntropy::fill(MutableByteView out) noexcept {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    CHECK(got > 0);  // without randomness there are no keys; the kernel blocks only before it is seeded
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t random_seed() noexcept {
  std::uint64_t seed = 0;
  KernelEntropy().fill({reinterpret_cast<std::byte*>(&seed), sizeof seed});
  return seed;
}

}  // namespace cairn::io
