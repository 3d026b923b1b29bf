// Ed25519 (RFC 8032) signatures.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "crypto/secret_bytes.h"

namespace cairn::crypto {

using Ed25519PublicKey = std::array<std::byte, 32>;
using Ed25519Signature = std::array<std::byte, 64>;

// A key pair. The seed is the private key as files hold it; the caller brings its randomness.
class Ed25519Key {
 public:
  explicit Ed25519Key(std::span<const std::byte, 32> seed) noexcept;

  const Ed25519PublicKey& public_key() const noexcept { return public_key_; }
  std::span<const std::byte, 32> reveal_seed() const noexcept { return expanded_.reveal().first<32>(); }
  // Deterministic: the same message has the same signature.
  Ed25519Signature sign(ByteView message) const noexcept;

 private:
  SecretBytes<64> expanded_;  // seed, then public key: the form that libsodium signs with
  Ed25519PublicKey public_key_{};
};

// Whether a signature can verify under it at all: a canonical point of the group that signers' keys are in.
// Other keys are of small order, not points, or spelled in two ways. Some verifiers would accept a key with a
// part of small order and others refuse it.
bool is_ed25519_key(const Ed25519PublicKey& key) noexcept;

// Strict: a signature has one accepted form (S below the group order), and keys of small order, under which
// anything can be made to verify, never do.
bool verify_ed25519(const Ed25519PublicKey& key, ByteView message,
                    const Ed25519Signature& signature) noexcept;

}  // namespace cairn::crypto
