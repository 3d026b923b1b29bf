#include "crypto/secret_bytes.h"

#include <sodium.h>

namespace cairn::crypto {

void wipe(MutableByteView bytes) noexcept { sodium_memzero(bytes.data(), bytes.size()); }
void wipe(std::string& text) noexcept { sodium_memzero(text.data(), text.size()); }

}  // namespace cairn::crypto
