// expect: 'co_await' cannot be used in a function with a deduced return type
// Awaiting inside `with` would hold the lock until somebody else resumes us.
#include "runtime/guarded.h"
#include "runtime/task.h"
#include "runtime/wait.h"

cairn::Task<> pause(cairn::Call call, cairn::Guarded<int, 1>& guarded) {
#ifdef RIGHT
  const int span = guarded.with([](int& value) { return value; });
  (void)co_await cairn::sleep_for(call, cairn::Duration::millis(span));
#else
  guarded.with([&](int& value) { (void)co_await cairn::sleep_for(call, cairn::Duration::millis(value)); });
  co_return;
#endif
}
