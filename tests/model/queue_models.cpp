// Queues: listener → mpsc → worker + shutdown (the model every service is an instance of), producers and
// consumers against close and cancel, and select over queues.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "model/models.h"
#include "runtime/mpsc.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

// A listener accepts jobs and hands each to the queue or rejects it; a worker handles them until the queue is
// closed; a shutdown at any moment: the listener stops, what was accepted is handled.
class ListenerWorker : public Model {
 public:
  ListenerWorker(World& world, std::size_t capacity, int items)
      : world_(world), queue_(world.shard, capacity), stop_(world.shard, 1), items_(items) {
    world.scope.spawn("listener", listener(world.scope.call()));
    world.scope.spawn("worker", worker(world.scope.call()));
    world.scope.spawn("shutdown", shutdown());
  }

  void after_step() override {
    world_.expect(queue_.depth() <= queue_.capacity(), "bound", "queue over its capacity");
  }
  void at_end() override {
    world_.expect(worker_saw_close_, "lost_shutdown", "the worker never saw the shutdown");
    world_.expect(listener_ended_, "lost_shutdown", "the listener never saw the shutdown");
    world_.expect(handled_ <= accepted_, "doubled_item", "an item was handled twice");
    world_.expect(handled_ == accepted_, "lost_item", "an accepted item was not handled");
    world_.expect(in_order_, "order", "items overtook each other");
  }
  std::string state() const override {
    return fmt::format("accepted={} rejected={} handled={}", accepted_, rejected_, handled_);
  }

 private:
  Task<> listener(Call call) {
    for (int i = 0; i < items_; ++i) {
      auto arm = co_await select(call.within(Duration::seconds(1)), stop_.readable());
      if (arm) {
        world_.expect(stop_.closed(), "wrong_arm", "the stop arm was reported without a stop");
        break;
      }
      world_.expect(arm.error().code == ErrorCode::timeout, "wrong_error", "a pause ended by something else");
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
    for (;;) {
      auto item = co_await queue_.recv(call);
      if (!item) {
        world_.expect(item.error().code == ErrorCode::closed, "wrong_error",
                      "the end was not told as closed");
        break;
      }
      if (*item != expected++) in_order_ = false;
      ++handled_;
      co_await yield(call);
    }
    worker_saw_close_ = true;
  }
  Task<> shutdown() {
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

// Counts what became of each item of a model, and the order in which one consumer sees one producer's.
class Ledger {
 public:
  static constexpr std::size_t producers = 2, items_max = 4;
  static int item(std::size_t producer, int n) { return static_cast<int>(producer * items_max) + n; }

  void accepted(int item) { ++accepted_[static_cast<std::size_t>(item)]; }
  void received(int item) { ++received_[static_cast<std::size_t>(item)]; }
  // Each accepted once and received once, or neither.
  void judge(World& world) const {
    for (std::size_t i = 0; i < accepted_.size(); ++i) {
      world.expect(received_[i] <= 1, "doubled_item", "an item was received twice");
      world.expect(received_[i] <= accepted_[i], "phantom_item", "a refused item was received");
      world.expect(received_[i] == accepted_[i], "lost_item", "an accepted item was not received");
    }
  }
  std::string state() const {
    return fmt::format("{}/{}", fmt::join(accepted_, ""), fmt::join(received_, ""));
  }

 private:
  std::array<int, producers * items_max> accepted_{}, received_{};
};

// One consumer's view: the newest item of each producer.
struct Order {
  std::array<int, Ledger::producers> newest{-1, -1};
  bool follows(int item) {
    int& last = newest[static_cast<std::size_t>(item) / Ledger::items_max];
    const bool fine = item > last;
    last = item;
    return fine;
  }
};

struct Shape {
  std::size_t capacity;
  int items;           // of each producer
  int consumers;       // the first can never be cancelled
  bool cancel;         // a producer and a consumer may be cancelled at any moment
  bool close_early;    // at any moment; otherwise when both producers are done
  bool paced = false;  // everybody pauses after each item, so that others come in between
};

// Two producers that wait for room, consumers that wait for items, a close and a cancel at any moment.
class ProducersConsumers : public Model {
 public:
  ProducersConsumers(World& world, Shape shape)
      : world_(world),
        shape_(shape),
        victims_(world.shard, world.scope.call()),
        queue_(world.shard, shape.capacity) {
    Scope& second = shape.cancel ? victims_ : world.scope;
    world.scope.spawn("producer-0", produce(world.scope.call(), 0));
    second.spawn("producer-1", produce(second.call(), 1));
    if (shape.consumers > 0) world.scope.spawn("consumer-0", consume(world.scope.call(), false));
    if (shape.consumers > 1) second.spawn("consumer-1", consume(second.call(), shape.cancel));
    if (shape.close_early) world.scope.spawn("closer", close());
    if (shape.cancel) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
  }
  void after_step() override {
    world_.expect(queue_.depth() <= queue_.capacity(), "bound", "queue over its capacity");
  }
  void at_end() override {
    world_.expect(queue_.depth() == 0 || shape_.consumers == 0, "lost_item",
                  "an item is left behind a closed queue");
    while (auto item = queue_.try_recv()) ledger_.received(*item);
    ledger_.judge(world_);
  }
  std::string state() const override { return ledger_.state(); }

 private:
  Task<> produce(Call call, std::size_t who) {
    for (int i = 0; i < shape_.items; ++i) {
      const int item = Ledger::item(who, i);
      auto sent = co_await queue_.send(call, item);
      if (!sent) {
        judge_refusal(sent.error(), shape_.cancel && who == 1);
        break;
      }
      ledger_.accepted(item);
      if (shape_.paced) co_await yield(call);
    }
    if (!shape_.close_early && ++ended_.edit() == 2) queue_.close();
  }
  Task<> consume(Call call, bool may_be_cancelled) {
    Order order;
    for (;;) {
      auto item = co_await queue_.recv(call);
      if (!item) {
        judge_refusal(item.error(), may_be_cancelled);
        break;
      }
      ledger_.received(*item);
      world_.expect(order.follows(*item), "order", "items of one producer overtook each other");
      if (shape_.paced) co_await yield(call);
    }
  }
  Task<> close() {
    queue_.close();
    co_return;
  }
  void judge_refusal(const Error& error, bool may_be_cancelled) {
    if (error.code == ErrorCode::closed)
      world_.expect(queue_.closed(), "wrong_error", "closed was told before the close");
    else
      world_.expect(
          may_be_cancelled && error == Error(ErrorCode::cancelled, "", Side::self, StopReason::client_gone),
          "wrong_error", "an end that nobody asked for");
  }

  World& world_;
  Shape shape_;
  Scope victims_;
  Mpsc<int> queue_;
  Shared<int> ended_{world_, 0};
  Ledger ledger_;
};

// Some consumers select and then try, as the contract asks, the others wait in recv. Those that take `once`
// are then busy for good.
class MixedConsumers : public Model {
 public:
  MixedConsumers(World& world, int selectors, int receivers, int items, bool cancel, bool once)
      : world_(world),
        items_(items),
        once_(once),
        victims_(world.shard, world.scope.call()),
        queue_(world.shard, 2) {
    for (int i = 0; i < selectors; ++i) {
      Scope& scope = cancel && i == 0 ? victims_ : world.scope;
      scope.spawn("selector", selector(scope.call()));
    }
    for (int i = 0; i < receivers; ++i) world.scope.spawn("receiver", receiver(world.scope.call()));
    world.scope.spawn("producer", producer(world.scope.call()));
    if (cancel) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
  }
  void at_end() override {
    ledger_.judge(world_);
    world_.expect(queue_.depth() == 0, "lost_item", "an item is left behind a closed queue");
  }
  std::string state() const override { return ledger_.state(); }

 private:
  Task<> producer(Call call) {
    for (int i = 0; i < items_; ++i) {
      if (co_await queue_.send(call, Ledger::item(0, i))) ledger_.accepted(Ledger::item(0, i));
    }
    // What is in flight must arrive without the help of a close.
    while (taken_.get() < items_)
      if (!co_await select(call, all_taken_.readable())) co_return;
    queue_.close();
  }
  Task<> selector(Call call) {
    Order order;
    for (;;) {
      if (!co_await select(call, queue_.readable())) break;
      if (auto item = queue_.try_recv()) {
        take(order, *item);
        if (once_) break;
      } else if (queue_.closed()) {
        break;
      }
    }
  }
  Task<> receiver(Call call) {
    Order order;
    for (;;) {
      auto item = co_await queue_.recv(call);
      if (!item) break;
      take(order, *item);
    }
  }
  void take(Order& order, int item) {
    ledger_.received(item);
    world_.expect(order.follows(item), "order", "items of one producer overtook each other");
    if (++taken_.edit() == items_) (void)all_taken_.try_send(0);
  }

  World& world_;
  int items_;
  bool once_;
  Scope victims_;
  Mpsc<int> queue_;
  Mpsc<int> all_taken_{world_.shard, 1};
  Shared<int> taken_{world_, 0};
  Ledger ledger_;
};

// A sender's deadline fires in the same turn as its item moves up, or before, or after.
class SendDeadline : public Model {
 public:
  explicit SendDeadline(World& world) : world_(world), queue_(world.shard, 1) {
    CHECK(queue_.try_send(Ledger::item(0, 0)));
    ledger_.accepted(Ledger::item(0, 0));
    world.scope.spawn("sender", sender(world.scope.call()));
    world.scope.spawn("receiver", receiver(world.scope.call()));
  }
  void at_end() override { ledger_.judge(world_); }
  std::string state() const override { return ledger_.state(); }

 private:
  Task<> sender(Call call) {
    for (int i = 1; i < 3; ++i) {
      auto sent = co_await queue_.send(call.within(Duration::seconds(1)), Ledger::item(0, i));
      if (sent)
        ledger_.accepted(Ledger::item(0, i));
      else
        world_.expect(sent.error().code == ErrorCode::timeout, "wrong_error",
                      "a send ended by something else");
    }
    queue_.close();
  }
  Task<> receiver(Call call) {
    Order order;
    for (int tries = 0;; ++tries) {
      auto item = co_await queue_.recv(tries < 2 ? call.within(Duration::seconds(2)) : call);
      if (item) {
        ledger_.received(*item);
        world_.expect(order.follows(*item), "order", "items overtook each other");
      } else if (item.error().code == ErrorCode::closed) {
        break;
      }
      co_await yield(call);
    }
  }

  World& world_;
  Mpsc<int> queue_;
  Ledger ledger_;
};

// One consumer selects over two queues and a pause; a producer for each. The arm it is told holds an item,
// the first in order wins, and the arms not chosen lose nothing.
class SelectTwo : public Model {
 public:
  SelectTwo(World& world, int items, bool pauses)
      : world_(world), items_(items), pauses_(pauses), first_(world.shard, 1), second_(world.shard, 1) {
    world.scope.spawn("producer-0", produce(world.scope.call(), first_, 0));
    world.scope.spawn("producer-1", produce(world.scope.call(), second_, 1));
    world.scope.spawn("consumer", consume(world.scope.call()));
  }
  void at_end() override { ledger_.judge(world_); }
  std::string state() const override { return ledger_.state(); }

 private:
  Task<> produce(Call call, Mpsc<int>& queue, std::size_t who) {
    for (int i = 0; i < items_; ++i)
      if (co_await queue.send(call, Ledger::item(who, i))) ledger_.accepted(Ledger::item(who, i));
    queue.close();
  }
  Task<> consume(Call call) {
    std::array<bool, 2> ended{};
    while (!ended[0] || !ended[1]) {
      // A queue that has ended is always ready: leave it out.
      const bool both = !ended[0] && !ended[1];
      Mpsc<int>& a = ended[0] ? second_ : first_;
      const bool first_ready = a.depth() > 0 || a.closed();
      const Call until = pauses_ && !paused_ ? call.within(Duration::seconds(1)) : call;
      Result<std::size_t> arm = fail(ErrorCode::internal, "");
      if (both)
        arm = co_await select(until, first_.readable(), second_.readable());
      else
        arm = co_await select(until, a.readable());
      if (!arm) {
        world_.expect(arm.error().code == ErrorCode::timeout && pauses_, "wrong_error",
                      "a select ended by itself");
        paused_ = true;
        co_await yield(call);
        continue;
      }
      world_.expect(!first_ready || *arm == 0, "arm_order", "a later arm won against the first");
      Mpsc<int>& told = both && *arm == 1 ? second_ : a;
      if (auto item = told.try_recv())
        ledger_.received(*item);
      else if (told.closed())
        ended[&told == &first_ ? 0 : 1] = true;
      else
        world_.fail("wrong_arm", "the arm told was not ready");
      co_await yield(call);
    }
  }

  World& world_;
  int items_;
  bool pauses_;
  bool paused_ = false;
  Mpsc<int> first_, second_;
  Ledger ledger_;
};

}  // namespace

void add_queue_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<ListenerWorker>("listener_mpsc1_worker_shutdown", 1u, 3));
  to.push_back(spec<ListenerWorker>("listener_mpsc2_worker_shutdown", 2u, 3));
  to.push_back(spec<ProducersConsumers>("mpsc1_close", Shape{1, 2, 2, false, true}));
  to.push_back(spec<ProducersConsumers>("mpsc2_close", Shape{2, 2, 2, false, true}));
  to.push_back(spec<ProducersConsumers>("mpsc1_close_cancel", Shape{1, 2, 2, true, true}));
  to.push_back(spec<ProducersConsumers>("mpsc2_close_cancel", Shape{2, 2, 2, true, true}));
  to.push_back(spec<ProducersConsumers>("mpsc1_cancel", Shape{1, 2, 1, true, false}));
  to.push_back(spec<ProducersConsumers>("mpsc2_drained_close", Shape{2, 3, 2, false, false}));
  to.push_back(spec<ProducersConsumers>("mpsc1_close_unread", Shape{1, 2, 0, true, true, true}));
  to.push_back(spec<ProducersConsumers>("mpsc1_close_paced", Shape{1, 2, 2, false, true, true}));
  to.push_back(spec<ProducersConsumers>("mpsc2_close_cancel_paced", Shape{2, 1, 2, true, true, true}));
  to.push_back(spec<SendDeadline>("mpsc_send_deadline"));
  to.push_back(spec<MixedConsumers>("mpsc_select_and_recv", 1, 1, 3, false, false));
  to.push_back(spec<MixedConsumers>("mpsc_two_selectors", 2, 0, 3, false, false));
  to.push_back(spec<MixedConsumers>("mpsc_selectors_once", 2, 0, 2, false, true));
  to.push_back(spec<MixedConsumers>("mpsc_select_cancel", 1, 1, 1, true, false));
  to.push_back(spec<MixedConsumers>("mpsc_select_cancel_items", 1, 1, 3, true, false));
  to.push_back(spec<SelectTwo>("select_two_ready", 2, false));
  to.push_back(spec<SelectTwo>("select_two_deadline", 1, true));
}

}  // namespace cairn::model
