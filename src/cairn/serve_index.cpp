// `cairn index`: the index service alone.
#include "cairn/compose.h"
#include "cairn/verbs.h"

namespace cairn::cli {

int index_verb(const Invocation& invocation) { return serve_alone(invocation, "index"); }

}  // namespace cairn::cli
