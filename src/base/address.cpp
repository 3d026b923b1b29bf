#include "base/address.h"

namespace cairn {

std::optional<Address> parse_address(std::string_view text) noexcept {
  Address address;
  if (!text.starts_with("b3:") || !parse_hex_to(text.substr(3), address.bytes)) return std::nullopt;
  return address;
}

std::string format_address(const Address& address) {
  std::string text("b3:");
  text.resize(text.size() + 2 * address.bytes.size());
  format_hex_to(address.bytes, text.data() + 3);
  return text;
}

}  // namespace cairn
