// Hashes a Hash for a table. Its bytes are as good as random, so the first few are enough.
#pragma once

#include <cstring>

#include "crypto/blake3.h"

namespace cairn::registry {

struct HashOfHash {
  std::size_t operator()(const crypto::Hash& hash) const noexcept {
    std::size_t out = 0;
    std::memcpy(&out, hash.data(), sizeof out);
    return out;
  }
};

}  // namespace cairn::registry
