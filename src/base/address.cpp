#include "base/address.h"

namespace cairn {

std::optional<Address> parse_address(std::string_view text) noexcept {
  Address address;
  if (!text.starts_with("b3:") || !parse_hex_to(text.substr(3), address.bytes)) return std::nullopt;
  return address;
}

std::string format_address(const Address& address) { return "b3:" + format_hex(address.bytes); }

}  // namespace cairn
