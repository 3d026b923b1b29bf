// expect-tidy: misc-coroutine-hostile-raii|cppcoreguidelines-no-suspend-with-lock
// As lock_across_suspension, with the lock that can be let go by hand.
#include <mutex>

#include "runtime/task.h"
#include "runtime/wait.h"

struct Counter {
  std::mutex mutex;
  int count = 0;

  cairn::Task<> bump(cairn::Call call) {
    {
      std::unique_lock lock(mutex);
      ++count;
#ifndef RIGHT
      co_await cairn::yield(call);
#endif
    }
#ifdef RIGHT
    co_await cairn::yield(call);
#endif
  }
};
