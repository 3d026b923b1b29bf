// `cairn storage`: the storage service alone.
#include "cairn/exit_code.h"
#include "cairn/terminal.h"
#include "cairn/verbs.h"

namespace cairn::cli {

int storage_verb(const Invocation& invocation) {
  Terminal(invocation).complain("not_implemented", "`cairn storage` is not built into this version", {}, {});
  return code_of(Exit::failed);
}

}  // namespace cairn::cli
