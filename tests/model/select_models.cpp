// Select over queues: who selects and who waits in recv share one queue fairly, and the arms that were not
// chosen lose nothing.
#include <array>
#include <string>

#include "model/ledger.h"
#include "model/models.h"
#include "runtime/mpsc.h"
#include "runtime/select.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

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

void add_select_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<MixedConsumers>("mpsc_select_and_recv", 1, 1, 3, false, false));
  to.push_back(spec<MixedConsumers>("mpsc_two_selectors", 2, 0, 3, false, false));
  to.push_back(spec<MixedConsumers>("mpsc_selectors_once", 2, 0, 2, false, true));
  to.push_back(spec<MixedConsumers>("mpsc_select_cancel", 1, 1, 1, true, false));
  to.push_back(spec<MixedConsumers>("mpsc_select_cancel_items", 1, 1, 3, true, false));
  to.push_back(spec<SelectTwo>("select_two_ready", 2, false));
  to.push_back(spec<SelectTwo>("select_two_deadline", 1, true));
}

}  // namespace cairn::model
