// Principal: the bearer on whose behalf a request runs. Its capability was found genuine, and the caveats
// hold.
#pragma once

#include <string>

#include "base/ulid.h"
#include "crypto/macaroon.h"

namespace cairn::serve {

struct Principal {
  // For logs and audits: the id of the root key, `/`, and a short hash of the token's identifier. For a
  // narrower token, it names the bearer who passed the token on. It holds no part of the token itself.
  std::string name;
  Ulid nonce;          // of the identifier: the same for all tokens that were narrowed from one token
  std::string tenant;  // the tenant that the token is bound to; empty: none

  std::string_view key_id() const noexcept { return std::string_view(name).substr(0, name.find('/')); }
};

// Of a genuine token.
Principal make_principal(const crypto::Macaroon& macaroon);

}  // namespace cairn::serve
