// expect: call to implicitly-deleted copy constructor of 'cairn::Task<
// Two owners would destroy one frame twice.
#include "runtime/task.h"

cairn::Task<> keep(cairn::Task<> task) {
#ifdef RIGHT
  return task;
#else
  cairn::Task<> second(task);
  return second;
#endif
}
