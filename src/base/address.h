// Address: the BLAKE3-256 of an object's canonical bytes, written `b3:` and 64 lowercase hex digits.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace cairn {

struct Address {
  std::array<std::byte, 32> bytes{};

  friend auto operator<=>(const Address&, const Address&) = default;
};

// Upper-case hex is accepted and normalised; anything else but `b3:` and 64 digits is not an address.
std::optional<Address> parse_address(std::string_view text) noexcept;
std::string format_address(const Address& address);

}  // namespace cairn
