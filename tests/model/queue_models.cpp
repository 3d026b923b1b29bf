// Queues: listener → mpsc → worker + shutdown (the model every service is an instance of), producers and
// consumers against close, cancel and deadline.
#include <fmt/format.h>

#include <deque>
#include <string>

#include "model/ledger.h"
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

// Two senders into a queue that drops its oldest item, a receiver that comes when it likes, a close at any
// moment.
class DropsOldest : public Model {
 public:
  DropsOldest(World& world, std::size_t capacity)
      : world_(world), queue_(world.shard, capacity, OverflowPolicy::drop_oldest) {
    world.scope.spawn("tries", tries(world.scope.call()));
    world.scope.spawn("sends", sends(world.scope.call()));
    world.scope.spawn("receiver", receiver(world.scope.call()));
    world.scope.spawn("closer", close());
  }
  void after_step() override {
    world_.expect(queue_.depth() <= queue_.capacity(), "bound", "queue over its capacity");
    world_.expect(received_ + queue_.dropped() + queue_.depth() + on_its_way_ == sent_, "lost_item",
                  "an item was neither received nor counted as dropped");
  }
  void at_end() override {
    while (auto item = queue_.try_recv()) take(*item);
    world_.expect(received_ + queue_.dropped() == sent_, "lost_item",
                  "an item was neither received nor counted as dropped");
    world_.expect(newest_ == last_sent_, "lost_item", "the newest item was dropped");
  }
  std::string state() const override {
    return fmt::format("sent={} received={} dropped={}", sent_, received_, queue_.dropped());
  }

 private:
  Task<> tries(Call call) {
    for (int i = 0; i < 3; ++i) {
      note_sent(queue_.try_send(Ledger::item(0, i)), Ledger::item(0, i));
      co_await yield(call);
    }
  }
  Task<> sends(Call call) {
    for (int i = 0; i < 3; ++i) {
      auto sending = queue_.send(call, Ledger::item(1, i));
      world_.expect(sending.await_ready(), "wait", "a sender waits although the oldest could give way");
      note_sent(sending.await_resume(), Ledger::item(1, i));
      co_await yield(call);
    }
  }
  void note_sent(const Result<>& sent, int item) {
    if (!sent) return world_.expect(queue_.closed(), "refused", "an item was refused before the close");
    ++sent_;
    last_sent_ = item;
    if (queue_.dropped() > dropped_) kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(on_its_way_));
    dropped_ = queue_.dropped();
    kept_.push_back(item);
    // A receiver that waits has it already, and has not run yet.
    if (waiting_) ++on_its_way_;
    waiting_ = false;
  }
  Task<> receiver(Call call) {
    for (;;) {
      waiting_ = queue_.depth() == 0;
      auto item = co_await queue_.recv(call);
      waiting_ = false;
      if (!item) break;
      on_its_way_ = 0;
      take(*item);
      co_await yield(call);
    }
  }
  void take(int item) {
    ++received_;
    newest_ = item;
    world_.expect(!kept_.empty() && kept_.front() == item, "order", "another item gave way than the oldest");
    if (!kept_.empty()) kept_.pop_front();
    world_.expect(order_.follows(item), "order", "items of one sender overtook each other");
  }
  Task<> close() {
    queue_.close();
    co_return;
  }

  World& world_;
  Mpsc<int> queue_;
  Order order_;
  std::deque<int> kept_;  // what should not have been dropped, the items on their way first
  std::uint64_t sent_ = 0, received_ = 0, dropped_ = 0, on_its_way_ = 0;
  int last_sent_ = -1, newest_ = -1;
  bool waiting_ = false;
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
  to.push_back(spec<DropsOldest>("mpsc1_drops_oldest", 1u));
  to.push_back(spec<DropsOldest>("mpsc2_drops_oldest", 2u));
}

}  // namespace cairn::model
