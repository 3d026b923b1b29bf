// The events that services of one process send each other. A slow listener loses the oldest events, and is
// told so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/address.h"

namespace cairn::serve {

struct Event {
  enum class Kind : std::uint8_t { shutdown, config_updated, registry_updated, registry_audited };
  Kind kind;
  // The version of the configuration or of the registry; for registry_audited the newest sequence of its
  // audit trail.
  std::uint64_t version = 0;
  Address b3 = {};                // registry_updated: the hash of its new head
  std::string_view service = {};  // the service that sent it; the bus sets it
};

inline constexpr std::size_t events_capacity = 1024;
// The capacity of `cfg_reload`: signals that ask for a reload, collapsed into one reading.
inline constexpr std::size_t reloads_capacity = 16;

}  // namespace cairn::serve
