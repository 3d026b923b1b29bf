#define OPENSSL_SUPPRESS_DEPRECATED  // there is no other way in that needs no provider
#include "fixed_randomness.h"

#include <openssl/rand.h>

#include "base/check.h"
#include "io/sim/entropy.h"

namespace cairn::simulator {
namespace {

io::sim::SimEntropy& source() {
  static io::sim::SimEntropy made(0);
  return made;
}

int fill(unsigned char* into, int size) {
  source().fill({reinterpret_cast<std::byte*>(into), static_cast<std::size_t>(size)});
  return 1;
}
int take_seed(const void*, int) { return 1; }
int take_entropy(const void*, int, double) { return 1; }
int is_seeded() { return 1; }
void forget() {}

constexpr RAND_METHOD method{take_seed, fill, forget, take_entropy, fill, is_seeded};

}  // namespace

void fix_randomness(std::uint64_t seed) {
  source() = io::sim::SimEntropy(seed);
  CHECK(RAND_set_rand_method(&method) == 1);
}

}  // namespace cairn::simulator
