// HMAC-SHA256 (RFC 2104, FIPS 180-4) and the comparison that belongs to it.
#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.h"

namespace cairn::crypto {

using Mac = std::array<std::byte, 32>;

// The key may have any length, none included.
Mac hmac_sha256(ByteView key, ByteView message) noexcept;

// Takes the same time wherever the first difference is. Lengths are not secret: unequal ones differ at once.
bool equal_constant_time(ByteView a, ByteView b) noexcept;

}  // namespace cairn::crypto
