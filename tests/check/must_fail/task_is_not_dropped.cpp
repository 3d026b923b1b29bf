// expect: ignoring return value of function declared with 'nodiscard' attribute
// A task that nobody awaits never runs.
#include "runtime/task.h"

cairn::Task<> work() { co_return; }

cairn::Task<> caller() {
#ifdef RIGHT
  co_await work();
#else
  work();
  co_return;
#endif
}
