#include "serve/principal.h"

#include "base/bytes.h"
#include "crypto/blake3.h"
#include "crypto/caveat.h"

namespace cairn::serve {
namespace {

constexpr std::size_t fingerprint_size = 8;

}  // namespace

Principal make_principal(const crypto::Macaroon& macaroon) {
  Principal principal;
  const crypto::Hash hash = crypto::hash_object(as_bytes(macaroon.identifier)).bytes;
  const std::string fingerprint = format_hex(ByteView(hash).first(fingerprint_size));
  if (const auto identifier = crypto::parse_identifier(macaroon.identifier)) {
    principal.name = identifier->key_id;
    principal.nonce = identifier->nonce;
  }
  principal.name += '/';
  principal.name += fingerprint;
  principal.tenant = crypto::find_tenant(macaroon).value_or("");
  return principal;
}

}  // namespace cairn::serve
