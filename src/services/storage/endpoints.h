// Where this node is asked for its objects, as its provider records say it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "format/provider_record.h"

namespace cairn::storage {

// HOST:PORT or https://HOST:PORT with an IP address. Nothing: it is no such text.
std::optional<format::Endpoint> parse_announced(std::string_view text);

// At most endpoints_max of them, each once.
std::optional<std::vector<format::Endpoint>> parse_all_announced(const std::vector<std::string>& texts);

// Where the service listens.
struct Bound {
  std::string address;  // HOST:PORT; empty: not yet
  bool tls = false;

  // It listens on all addresses of the machine, or on all of IPv4.
  bool is_wildcard() const noexcept;
};
// The one that it is bound to. Of a wildcard: those of `machine` that others may reach, at most
// endpoints_max, each once; loopback only if there is nothing else. Empty: nowhere.
std::vector<format::Endpoint> choose_endpoints(const Bound& bound, std::span<const IpBytes> machine);

}  // namespace cairn::storage
