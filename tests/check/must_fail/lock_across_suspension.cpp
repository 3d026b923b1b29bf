// expect-tidy: misc-coroutine-hostile-raii
// The lock would be held while others run on this shard, and might be released by another thread.
#include <mutex>

#include "runtime/task.h"
#include "runtime/wait.h"

struct Counter {
  std::mutex mutex;
  int count = 0;

  cairn::Task<> bump(cairn::Call call) {
    {
      std::lock_guard<std::mutex> lock(mutex);
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
