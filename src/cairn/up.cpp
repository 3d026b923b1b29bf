// `cairn up`: every service in one process.
#include "cairn/exit_code.h"
#include "cairn/terminal.h"
#include "cairn/verbs.h"

namespace cairn::cli {

int up_verb(const Invocation& invocation) {
  Terminal(invocation).complain("not_implemented", "`cairn up` is not built into this version", {}, {});
  return code_of(Exit::failed);
}

}  // namespace cairn::cli
