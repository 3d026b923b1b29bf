// Reach: which addresses of providers make sense in a network. A record from the DHT may lead anywhere; a
// client must not be sent to a network that its node is not in, or to itself.
#pragma once

#include "format/provider_record.h"
#include "io/dht.h"

namespace cairn::index {

struct Reach {
  io::DhtMode mode = io::DhtMode::local;
  bool loopback = false;  // also outside of the mode `local`
};

// lan: private and link-local addresses; private_network: also global ones; public_network: only global ones;
// local: any. Loopback only in the mode `local`, or if it is allowed. Multicast, unspecified and reserved
// addresses never.
bool can_reach(const format::Endpoint& endpoint, const Reach& reach) noexcept;
// Whether one of its endpoints can be reached. Of a withdrawal: true, it leads nowhere.
bool can_reach(const format::ProviderRecord& record, const Reach& reach) noexcept;

}  // namespace cairn::index
