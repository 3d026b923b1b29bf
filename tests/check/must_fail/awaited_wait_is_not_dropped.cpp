// expect: ignoring return value of function declared with 'nodiscard' attribute
// A wait that ended early is not a wait: whoever sleeps and goes on has to know which it was.
#include "runtime/task.h"
#include "runtime/wait.h"

cairn::Task<> caller(cairn::Call call) {
#ifdef RIGHT
  if (!co_await cairn::sleep_for(call, {})) co_return;
#else
  if (!call.stopped()) co_await cairn::sleep_for(call, {});
#endif
}
