// SHA-256 (FIPS 180-4).
#pragma once

#include <openssl/sha.h>

#include <array>
#include <cstddef>

#include "base/bytes.h"

namespace cairn::crypto {

using Sha256Hash = std::array<std::byte, 32>;

Sha256Hash sha256(ByteView bytes) noexcept;

// The same for bytes that come in slices.
class Sha256 {
 public:
  Sha256() noexcept;

  void update(ByteView bytes) noexcept;
  // The hash of the bytes so far; more may follow.
  Sha256Hash finish() const noexcept;

 private:
  SHA256_CTX state_;
};

}  // namespace cairn::crypto
