// expect: no matching member function for call to 'with'[\s\S]*'!Suspendable<
// A coroutine given to `with` would suspend with the lock held.
#include "runtime/guarded.h"
#include "runtime/task.h"

void lend(cairn::Guarded<int, 1>& guarded) {
#ifdef RIGHT
  guarded.with([](int& value) { ++value; });
#else
  (void)guarded.with([](int& value) -> cairn::Task<> {
    ++value;
    co_return;
  });
#endif
}
