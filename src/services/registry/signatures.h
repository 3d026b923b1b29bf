// The signatures that come with a change. One who approves has them checked on the shard that was asked,
// where the work holds up nobody else. Those of a commit are checked when the committer comes to it: of all
// commits that race for the next version only the first needs them, the others are refused anyway.
#pragma once

#include "services/registry/mutation.h"

namespace cairn::registry {

class Registry;

// Moves what is in `given` to `approvals`, each with the key under which it was found good. A bad one makes
// the change one that is only noted. The committer checks that the keys are still the signers' when it
// decides.
void check_signatures(Registry& registry, Mutation& mutation);

}  // namespace cairn::registry
