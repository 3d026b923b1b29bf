// `cairn gateway`: the gateway alone.
#include "cairn/compose.h"
#include "cairn/verbs.h"

namespace cairn::cli {

int gateway_verb(const Invocation& invocation) { return serve_alone(invocation, "gateway"); }

}  // namespace cairn::cli
