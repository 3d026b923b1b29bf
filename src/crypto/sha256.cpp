// OpenSSL 3 marks the functions that need no allocation as deprecated. The ones it wants instead look the
// algorithm up in a locked table and allocate a context: more time than a tree node's two blocks take.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "crypto/sha256.h"

namespace cairn::crypto {

Sha256::Sha256() noexcept { SHA256_Init(&state_); }

void Sha256::update(ByteView bytes) noexcept { SHA256_Update(&state_, bytes.data(), bytes.size()); }

Sha256Hash Sha256::finish() const noexcept {
  SHA256_CTX last = state_;
  Sha256Hash hash;
  SHA256_Final(reinterpret_cast<unsigned char*>(hash.data()), &last);
  return hash;
}

Sha256Hash sha256(ByteView bytes) noexcept {
  Sha256 hasher;
  hasher.update(bytes);
  return hasher.finish();
}

}  // namespace cairn::crypto
