// expect: ignoring return value of function declared with 'nodiscard' attribute
// An error that a task brings back is as easily lost as one that a function returns.
#include "base/result.h"
#include "runtime/task.h"

cairn::Task<cairn::Result<>> save() { co_return cairn::Result<>(); }

cairn::Task<> caller() {
#ifdef RIGHT
  (void)co_await save();
#else
  co_await save();
#endif
}
