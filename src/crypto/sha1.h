// SHA-1 (FIPS 180-4). It is broken: only for protocols that name it where nothing depends on its strength,
// such as the handshake of a WebSocket.
#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.h"

namespace cairn::crypto {

using Sha1Hash = std::array<std::byte, 20>;

Sha1Hash sha1(ByteView bytes) noexcept;

}  // namespace cairn::crypto
