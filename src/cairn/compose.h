// Compose: the services of one process, put together.
#pragma once

#include "cairn/command.h"

namespace cairn::cli {

// Serves until a signal ends it. `up`: every service, each in its table; else one alone. The exit code.
int serve_up(const Invocation& invocation);
int serve_alone(const Invocation& invocation, std::string_view service);

}  // namespace cairn::cli
