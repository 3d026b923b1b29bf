#include "crypto/ed25519.h"

#include <sodium.h>

namespace cairn::crypto {
namespace {

template <class Bytes>
const unsigned char* raw(const Bytes& bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
template <class Bytes>
unsigned char* raw_to(Bytes&& bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace

Ed25519Key::Ed25519Key(std::span<const std::byte, 32> seed) noexcept {
  crypto_sign_ed25519_seed_keypair(raw_to(public_key_), raw_to(expanded_.reveal_to_fill()), raw(seed));
}

Ed25519Signature Ed25519Key::sign(ByteView message) const noexcept {
  Ed25519Signature signature;
  crypto_sign_ed25519_detached(raw_to(signature), nullptr, raw(message), message.size(),
                               raw(expanded_.reveal()));
  return signature;
}

bool is_ed25519_key(const Ed25519PublicKey& key) noexcept {
  return crypto_core_ed25519_is_valid_point(raw(key)) == 1;
}

bool verify_ed25519(const Ed25519PublicKey& key, ByteView message,
                    const Ed25519Signature& signature) noexcept {
  return crypto_sign_ed25519_verify_detached(raw(signature), raw(message), message.size(), raw(key)) == 0;
}

}  // namespace cairn::crypto
