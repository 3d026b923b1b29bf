// expect: no matching member function for call to 'with'[\s\S]*'!Suspendable<
// An awaitable made under the lock may look at the value after the lock is gone.
#include "runtime/guarded.h"
#include "runtime/wait.h"

cairn::Instant deadline(const cairn::Call& call, cairn::Guarded<cairn::Instant, 1>& guarded) {
#ifdef RIGHT
  return guarded.with([&](cairn::Instant& until) { return call.by(until).deadline(); });
#else
  (void)guarded.with([&](cairn::Instant& until) { return cairn::sleep_until(call, until); });
  return call.deadline();
#endif
}
