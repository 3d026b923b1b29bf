// `cairn storage`: the storage service alone.
#include "cairn/compose.h"
#include "cairn/verbs.h"

namespace cairn::cli {

int storage_verb(const Invocation& invocation) { return serve_alone(invocation, "storage"); }

}  // namespace cairn::cli
