#include "services/gateway/pace.h"

#include "runtime/scope.h"
#include "runtime/wait.h"

namespace cairn::gateway {
namespace {

// The turn may have ended with the answer's head meanwhile.
Task<> give_back_at(Call call, serve::Request* request, Instant due) {
  if (co_await sleep_until(call, due)) request->turn = Turn();
}

}  // namespace

// The wait for the body itself is not shortened: its carrier would take that for a client that used up its
// time.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its handler
Task<Result<Buffer>> next_in_pace(Call call, serve::Request& request, Instant begun) {
  if (!request.turn) co_return co_await request.body.next(call);
  const std::uint64_t paid_ns = request.body.received() * 1'000'000'000 / least_bytes_per_second;
  const Instant due = begun + pace_allowance + Duration::nanos(static_cast<std::int64_t>(paid_ns));
  Scope watch(*current_shard(), call);
  watch.spawn("pace", give_back_at(watch.call(), &request, due));
  auto slice = co_await request.body.next(call);
  watch.cancel(StopReason::superseded);
  co_await watch.join_all(call);
  co_return slice;
}

}  // namespace cairn::gateway
