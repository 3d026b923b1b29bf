// Ed25519 keys as OpenSSL writes them: PKCS#8 (RFC 5958, version 1; RFC 8410) and SubjectPublicKeyInfo, in
// PEM (RFC 7468).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "crypto/ed25519.h"

namespace cairn::crypto {

// Byte for byte the output of `openssl pkey` and `openssl pkey -pubout`. The private text holds the seed:
// wipe() it after use.
std::string format_private_pem(const Ed25519Key& key);
std::string format_public_pem(const Ed25519PublicKey& key);

// Parses one such block and nothing else. Lines may end with CR LF, and the last line end may be missing.
// Another kind of key, an encrypted one or damage is `malformed`.
Result<Ed25519Key> parse_private_pem(std::string_view text);
Result<Ed25519PublicKey> parse_public_pem(std::string_view text);

}  // namespace cairn::crypto
