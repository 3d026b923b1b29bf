// The sweeper: ends proposals whose time is over.
#include <algorithm>

#include "runtime/wait.h"
#include "services/registry/home.h"

namespace cairn::registry {

Task<Result<>> Home::sweep_once(Call call) {
  const WallTime now = now_wall();
  const bool any = registry_.ledger().with([&](Ledger& ledger) {
    return std::ranges::any_of(ledger.pending(), [&](const auto& one) { return one.second.expires <= now; });
  });
  if (!any) co_return Result<>{};
  CO_TRY_VOID(co_await submit(call, std::make_unique<Mutation>(Mutation::Kind::expire)));
  co_return Result<>{};
}

Task<> Home::sweep_loop(Call call) {
  while (co_await sleep_for(call, Duration::seconds(10)))
    if (auto swept = co_await sweep_once(call); !swept && !call.stopped())
      log_.warn("expired proposals were not swept", {{"why", swept.error().context}});
}

}  // namespace cairn::registry
