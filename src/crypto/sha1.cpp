#include "crypto/sha1.h"

#include <openssl/sha.h>

namespace cairn::crypto {

Sha1Hash sha1(ByteView bytes) noexcept {
  Sha1Hash hash;
  SHA1(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
       reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

}  // namespace cairn::crypto
