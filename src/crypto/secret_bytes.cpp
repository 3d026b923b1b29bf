#include "crypto/secret_bytes.h"

#include <sodium.h>

namespace cairn::crypto {

void wipe(MutableByteView bytes) noexcept { sodium_memzero(bytes.data(), bytes.size()); }
void wipe(std::string& text) noexcept {
  const std::size_t size = text.size();
  text.resize(text.capacity());
  sodium_memzero(text.data(), text.size());
  text.resize(size);
}

}  // namespace cairn::crypto
