// FixedRandomness: what OpenSSL takes for random in this process: the same in every run of a seed. Its keys
// and nonces have fixed lengths anyway; what it encodes of them need not.
#pragma once

#include <cstdint>

namespace cairn::simulator {

// From now on; each seed begins it anew.
void fix_randomness(std::uint64_t seed);

}  // namespace cairn::simulator
