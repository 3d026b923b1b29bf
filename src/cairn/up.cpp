// `cairn up`: every service in one process.
#include "cairn/compose.h"
#include "cairn/verbs.h"

namespace cairn::cli {

int up_verb(const Invocation& invocation) { return serve_up(invocation); }

}  // namespace cairn::cli
