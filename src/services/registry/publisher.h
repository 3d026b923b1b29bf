// The bus publisher: tells somebody of every new version, at its own pace. The committer never waits for it:
// what comes while it is busy is dropped, the oldest first, and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "services/registry/port.h"

namespace cairn::registry {

// Called on the home shard; may wait, and nobody waits for it. Cancel: clean.
using Publish = std::function<Task<Result<>>(Call call, Head head)>;

// How it gets on, to be looked at on the same shard.
struct PublisherState {
  static constexpr Duration patience = Duration::seconds(1);
  std::optional<Instant> since = {};  // when the telling that is under way was begun
  bool failed = false;                // the last one did

  bool keeps_up(Instant now) const noexcept { return !failed && (!since || now - *since <= patience); }
};

// Until the call is stopped. `lagged` hears how many versions were not told. `port` and `state` outlive it.
// Cancel: clean.
Task<> publish_heads(Call call, Port* port, Publish publish, std::function<void(std::uint64_t)> lagged,
                     PublisherState* state);

}  // namespace cairn::registry
