// The verbs below `registry` and `key`, declared once: parts of the command tree.
#pragma once

#include "cairn/command.h"

namespace cairn::cli {

inline constexpr std::size_t registry_command_count = 11, key_command_count = 4;
extern const Command registry_commands[registry_command_count];
extern const Command key_commands[key_command_count];

}  // namespace cairn::cli
