#include "services/registry/proposal_expiry.h"

#include <algorithm>

#include "runtime/wait.h"
#include "services/registry/recorded_time.h"

namespace cairn::registry {

Task<> ProposalExpiry::run(Call call) {
  while (co_await sleep_for(call, Duration::seconds(10)))
    if (auto swept = co_await run_once(call); !swept && !call.stopped())
      log_.warn("expired proposals were not swept", {{"why", swept.error().context}});
}

Task<Result<>> ProposalExpiry::run_once(Call call) {
  const WallTime now = recorded_time(shard_);
  const bool any = ledger_.with([&](Ledger& ledger) {
    return std::ranges::any_of(ledger.pending(), [&](const auto& one) { return one.second.expires <= now; });
  });
  if (!any) co_return Result<>{};
  CO_TRY_VOID(co_await chores_.ask(call, std::make_unique<Mutation>(Mutation::Kind::expire)));
  co_return Result<>{};
}

}  // namespace cairn::registry
