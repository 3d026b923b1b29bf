// A network of IP addresses, `10.0.0.0/8` or `2001:db8::/32`. An IPv4 network is the network of its mapped
// addresses, so that there is one way to compare.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

using IpBytes = std::array<std::uint8_t, 16>;

struct IpNetwork {
  IpBytes bytes{};
  unsigned bits = 0;

  bool contains(const IpBytes& ip) const noexcept;
  // Whether its address has bits set beyond the prefix: most likely a mistake.
  bool has_host_bits() const noexcept;
  friend bool operator==(const IpNetwork&, const IpNetwork&) = default;
};

std::optional<IpNetwork> parse_network(std::string_view text) noexcept;

// An address without a prefix and without brackets.
std::optional<IpBytes> parse_ip(std::string_view text) noexcept;
// As people write it: 10.0.0.1 of a mapped address, else RFC 5952.
std::string format_ip(const IpBytes& ip);

}  // namespace cairn
