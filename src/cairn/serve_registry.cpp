// `cairn registry` without a verb: the registry service alone.
#include "cairn/compose.h"
#include "cairn/verbs.h"

namespace cairn::cli {

int registry_verb(const Invocation& invocation) { return serve_alone(invocation, "registry"); }

}  // namespace cairn::cli
