// The addresses of this machine. Asking blocks for a moment: never on a shard.
#pragma once

#include <vector>

#include "base/network.h"

namespace cairn::io {

// Those of the interfaces that are up, in the kernel's order. Empty when it does not say.
std::vector<IpBytes> interface_addresses();

}  // namespace cairn::io
