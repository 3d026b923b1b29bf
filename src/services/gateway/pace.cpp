#include "services/gateway/pace.h"

#include <exception>
#include <utility>

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
  // Made before the task is there: behind it nothing may fail for want of memory until it has ended.
  Task<Result<Buffer>> next = request.body.next(call);
  Task<> ended = watch.join_all(call);
  watch.spawn("pace", give_back_at(watch.call(), &request, due));
  Result<Buffer> slice = Buffer();
  std::exception_ptr problem;
  try {
    slice = co_await std::move(next);
  } catch (...) {
    problem = std::current_exception();
  }
  watch.cancel(StopReason::superseded);
  co_await std::move(ended);
  if (problem) std::rethrow_exception(problem);
  co_return slice;
}

}  // namespace cairn::gateway
