#include "crypto/hmac.h"

#include <sodium.h>

namespace cairn::crypto {
namespace {

const unsigned char* raw(ByteView bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

// These functions of libsodium need no sodium_init: it only chooses among implementations of other
// primitives.
Mac hmac_sha256(ByteView key, ByteView message) noexcept {
  Mac mac;
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, raw(key), key.size());
  crypto_auth_hmacsha256_update(&state, raw(message), message.size());
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(mac.data()));
  sodium_memzero(&state, sizeof state);
  return mac;
}

bool equal_constant_time(ByteView a, ByteView b) noexcept {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace cairn::crypto
