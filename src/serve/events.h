// What services of one process tell each other. Slow listeners lose the oldest, and are told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/address.h"

namespace cairn::serve {

struct Event {
  enum class Kind : std::uint8_t { shutdown, config_updated, registry_updated, registry_audited };
  Kind kind;
  // Of the configuration, or of the registry; registry_audited: the newest sequence of its audit trail.
  std::uint64_t version = 0;
  Address b3 = {};                // registry_updated: the hash of its new head
  std::string_view service = {};  // whose; the bus writes it
};

inline constexpr std::size_t events_capacity = 1024;
// Of `cfg_reload`: signals that ask for the configuration to be read again, collapsed into one reading.
inline constexpr std::size_t reloads_capacity = 16;

}  // namespace cairn::serve
