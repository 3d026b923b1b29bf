// The bus publisher: publishes every new version, at its own pace. The committer never waits for it: versions
// that come while it is busy are dropped, the oldest first, and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "services/registry/port.h"

namespace cairn::registry {

// Called on the home shard. It may wait; only the publisher waits for it. Cancel: clean.
using Publish = std::function<Task<Result<>>(Call call, Head head)>;

// The publisher's progress, to be read on the same shard.
struct PublisherState {
  static constexpr Duration patience = Duration::seconds(1);
  std::optional<Instant> since = {};  // when the publish that is under way began
  bool failed = false;                // the last publish did

  bool keeps_up(Instant now) const noexcept { return !failed && (!since || now - *since <= patience); }
};

// Publishes until the call is stopped. `lagged` is called with the number of versions that were left out.
// `port` and `state` outlive it.
// Cancel: clean.
Task<> publish_heads(Call call, Port* port, Publish publish, std::function<void(std::uint64_t)> lagged,
                     PublisherState* state);

}  // namespace cairn::registry
