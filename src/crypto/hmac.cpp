#include "crypto/hmac.h"

#include <sodium.h>

#include <cstdint>
#include <cstring>

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
  if (a.size() != b.size()) return false;
  // Eight bytes at a time: a token is compared with every request, and sodium_memcmp takes them one by one.
  std::uint64_t differs = 0;
  std::size_t at = 0;
  for (std::uint64_t x = 0, y = 0; at + sizeof x <= a.size(); at += sizeof x) {
    std::memcpy(&x, a.data() + at, sizeof x);
    std::memcpy(&y, b.data() + at, sizeof y);
    differs |= x ^ y;
  }
  for (; at < a.size(); ++at) differs |= static_cast<std::uint64_t>(a[at] ^ b[at]);
  asm volatile("" : "+r"(differs));  // keeps the compiler from leaving the loop early
  return differs == 0;
}

}  // namespace cairn::crypto
