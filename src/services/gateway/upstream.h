// The services that the gateway forwards to.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cairn::gateway {

enum class Upstream : std::uint8_t { storage, index, registry };
inline constexpr std::array<std::string_view, 3> upstream_names{"storage", "index", "registry"};
constexpr std::string_view name_of(Upstream upstream) noexcept {
  return upstream_names[static_cast<std::size_t>(upstream)];
}

}  // namespace cairn::gateway
