// Principal: whose request it is: the bearer of a capability that was found genuine and whose caveats hold.
#pragma once

#include <string>

#include "base/ulid.h"
#include "crypto/macaroon.h"

namespace cairn::serve {

struct Principal {
  // For logs and audits: the id of the root key, `/`, and a short hash of the token's identifier. Who passes
  // a narrower token on is who is named. No part of the token itself.
  std::string name;
  Ulid nonce;          // of the identifier: the same for every token that was narrowed from one
  std::string tenant;  // that the token is bound to; empty: none

  std::string_view key_id() const noexcept { return std::string_view(name).substr(0, name.find('/')); }
};

// Of a genuine token.
Principal make_principal(const crypto::Macaroon& macaroon);

}  // namespace cairn::serve
