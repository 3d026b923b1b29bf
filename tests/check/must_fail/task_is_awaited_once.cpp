// expect: no member named 'await_ready' in 'cairn::Task<int>'
// Awaiting consumes the task: a named one must be moved, so that a second await is seen as a use after move.
#include "runtime/task.h"

cairn::Task<int> work() { co_return 1; }

cairn::Task<int> caller() {
  auto task = work();
#ifdef RIGHT
  co_return co_await std::move(task);
#else
  co_return co_await task;
#endif
}
