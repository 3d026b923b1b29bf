// The bus publisher: tells somebody of every new version, at its own pace. The committer never waits for it:
// what comes while it is busy is dropped, the oldest first, and counted.
#pragma once

#include <cstdint>
#include <functional>

#include "services/registry/port.h"

namespace cairn::registry {

// Called on the home shard; may wait, and nobody waits for it. Cancel: clean.
using Publish = std::function<Task<Result<>>(Call call, Head head)>;

// Until the call is stopped. `lagged` hears how many versions were not told. `port` outlives it. Cancel:
// clean.
Task<> publish_heads(Call call, Port* port, Publish publish, std::function<void(std::uint64_t)> lagged);

}  // namespace cairn::registry
