#include "cairn/parallel.h"

#include <algorithm>

namespace cairn::cli {
namespace {

struct Queue {
  std::size_t next = 0, count = 0;
  std::function<Task<>(Call, std::size_t)> work;
};

Task<> take_turns(Call call, Queue* queue) {
  while (queue->next < queue->count && !call.stopped()) co_await queue->work(call, queue->next++);
}

}  // namespace

Task<> run_parallel(Call call, Shard* shard, std::size_t count, std::size_t at_once,
                    std::function<Task<>(Call, std::size_t)> work) {
  Queue queue{.count = count, .work = std::move(work)};
  Scope scope(*shard, call);
  for (std::size_t i = 0; i < std::min(count, at_once); ++i)
    scope.spawn("worker", take_turns(scope.call(), &queue));
  (void)co_await scope.join(call.unbounded());
}

}  // namespace cairn::cli
