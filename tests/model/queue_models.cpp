// Listener → mpsc → worker + shutdown (the model every service is an instance of), and plain grids that
// measure the explorer itself.
#include "model/queue_models.h"

#include <fmt/format.h>

#include "runtime/mpsc.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

// A listener accepts `items` jobs and hands each to the queue or rejects it; a worker handles them until the
// queue is closed; a supervisor shuts down at any moment: the listener stops, what was accepted is handled.
class ListenerWorker : public Model {
 public:
  ListenerWorker(World& world, std::size_t capacity, int items)
      : world_(world), queue_(world.shard, capacity), stop_(world.shard, 1), items_(items) {
    world.scope.spawn("listener", listener(world.scope.call()));
    world.scope.spawn("worker", worker(world.scope.call()));
    world.scope.spawn("supervisor", supervisor());
  }

  void after_step() override { world_.expect(queue_.depth() <= queue_.capacity(), "bound", "queue over its capacity"); }
  void at_end() override {
    world_.expect(worker_saw_close_, "lost_shutdown", "the worker never saw the shutdown");
    world_.expect(listener_ended_, "lost_shutdown", "the listener never saw the shutdown");
    world_.expect(handled_ <= accepted_, "doubled_item", "an item was handled twice");
    world_.expect(handled_ == accepted_, "lost_item", "an accepted item was not handled");
    world_.expect(in_order_, "order", "items overtook each other");
  }
  std::string state() const override { return fmt::format("accepted={} rejected={} handled={}", accepted_, rejected_, handled_); }

 private:
  Task<> listener(Call call) {
    for (int i = 0; i < items_; ++i) {
      auto arm = co_await select(call.within(Duration::seconds(1)), stop_.readable());
      if (arm) break;
      if (arm.error().code != ErrorCode::timeout) break;
      if (queue_.try_send(int(accepted_)))
        ++accepted_;
      else
        ++rejected_;
    }
    listener_ended_ = true;
    queue_.close();
  }
  Task<> worker(Call call) {
    int expected = 0;
    while (auto item = co_await queue_.recv(call)) {
      if (*item != expected++) in_order_ = false;
      ++handled_;
      co_await yield(call);
    }
    worker_saw_close_ = true;
  }
  Task<> supervisor() {
    stop_.close();
    co_return;
  }

  World& world_;
  Mpsc<int> queue_;
  Mpsc<int> stop_;
  int items_;
  int accepted_ = 0, rejected_ = 0, handled_ = 0;
  bool worker_saw_close_ = false, listener_ended_ = false, in_order_ = true;
};

// N tasks, each with K awaits on a shared queue or a private one: the sizes the explorer must exhaust.
class Grid : public Model {
 public:
  Grid(World& world, int tasks, int awaits, bool shared) : world_(world) {
    for (int i = 0; i < tasks; ++i)
      if (!shared || i == 0) queues_.push_back(std::make_unique<Mpsc<int>>(world.shard, 64));
    for (int i = 0; i < tasks; ++i)
      world.scope.spawn("cell", cell(world.scope.call(), *queues_[shared ? 0 : static_cast<std::size_t>(i)], i, awaits));
  }
  void at_end() override { world_.expect(true, "", ""); }
  std::string state() const override {
    std::string text;
    for (auto& queue : queues_) text += fmt::format("{} ", queue->depth());
    return text;
  }

 private:
  // One step for the start and one for each await but the last: `awaits` steps in all.
  static Task<> cell(Call call, Mpsc<int>& queue, int who, int awaits) {
    for (int i = 0; i < awaits; ++i) {
      (void)queue.try_send(int(who));
      if (i + 1 < awaits) co_await yield(call);
    }
  }
  World& world_;
  std::vector<std::unique_ptr<Mpsc<int>>> queues_;
};

template <class M, class... Args>
ModelSpec spec(const char* name, Args... args) {
  return {name, [=](World& world) { return std::make_unique<M>(world, args...); }};
}

}  // namespace

void add_queue_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<ListenerWorker>("listener_mpsc1_worker_shutdown", 1u, 3));
  to.push_back(spec<ListenerWorker>("listener_mpsc2_worker_shutdown", 2u, 3));
  to.push_back(spec<Grid>("grid_3x6_apart", 3, 6, false));
  to.push_back(spec<Grid>("grid_4x3_shared", 4, 3, true));
  to.push_back(spec<Grid>("grid_3x4_shared", 3, 4, true));
}

}  // namespace cairn::model
