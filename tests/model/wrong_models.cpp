// Models that are wrong on purpose: each oracle that holds for every model must find its own.
#include <optional>
#include <string>

#include "model/models.h"
#include "runtime/guarded.h"
#include "runtime/mpsc.h"
#include "runtime/semaphore.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

class Wrong : public Model {
 public:
  explicit Wrong(World& world) : world_(world) {}
  void at_end() override {}
  std::string state() const override { return {}; }

 protected:
  World& world_;
};

// Two semaphores taken in opposite orders.
class OppositeOrders : public Wrong {
 public:
  explicit OppositeOrders(World& world) : Wrong(world) {
    world.scope.spawn("ab", both(world.scope.call(), a_, b_));
    world.scope.spawn("ba", both(world.scope.call(), b_, a_));
  }

 private:
  static Task<> both(Call call, Semaphore& first, Semaphore& second) {
    auto one = co_await first.acquire(call);
    co_await yield(call);
    auto two = co_await second.acquire(call);
  }
  Semaphore a_{world_.shard, 1}, b_{world_.shard, 1};
};

// Looks, lets others run, then waits without looking again.
class StaleLook : public Wrong {
 public:
  explicit StaleLook(World& world) : Wrong(world) {
    world.scope.spawn("waiter", waiter(world.scope.call()));
    world.scope.spawn("setter", setter());
  }

 private:
  Task<> waiter(Call call) {
    if (set_.get()) co_return;
    co_await yield(call);
    (void)co_await ListWait(call, waiters_, "stale");
  }
  Task<> setter() {
    set_.edit() = true;
    while (!waiters_.empty()) wake(waiters_.front());
    co_return;
  }
  Shared<bool> set_{world_, false};
  WaitList waiters_;
};

// Waits while another task's lock is held: the loop is entered again from inside Guarded::with.
class LockAtWait : public Wrong {
 public:
  explicit LockAtWait(World& world) : Wrong(world) {
    world.scope.spawn("holder", holder());
    world.scope.spawn("waiter", waiter(world.scope.call()));
  }

 private:
  Task<> holder() {
    guarded_.with([this](int& n) {
      ++n;
      if (!world_.shard.idle()) world_.shard.run_one();
    });
    co_return;
  }
  static Task<> waiter(Call call) { (void)co_await sleep_for(call, Duration::seconds(1)); }
  Guarded<int, 1> guarded_{0};
};

// Waits under a stop switch nobody can reach.
class Unreachable : public Wrong {
 public:
  explicit Unreachable(World& world) : Wrong(world) { world.scope.spawn("deaf", deaf()); }
  bool may_wait_at_end(const TaskInfo&) const override { return true; }

 private:
  Task<> deaf() { (void)co_await sleep_until(own_.call(), Instant::never()); }
  Scope own_{world_.shard};
};

// Polls for something that comes only if the poll is left alone for a while.
class Poll : public Wrong {
 public:
  explicit Poll(World& world) : Wrong(world) {
    world.scope.spawn("poller", poller(world.scope.call()));
    world.scope.spawn("setter", setter());
  }

 private:
  Task<> poller(Call call) {
    while (!set_.get()) co_await yield(call);
  }
  Task<> setter() {
    set_.edit() = true;
    co_return;
  }
  Shared<bool> set_{world_, false};
};

// A destroyed primitive that somebody still waits on.
class DeadQueue : public Wrong {
 public:
  explicit DeadQueue(World& world) : Wrong(world) {
    queue_.emplace(world.shard, 1u);
    world.scope.spawn("receiver", receiver(world.scope.call()));
    world.scope.spawn("destroyer", destroyer());
  }

 private:
  Task<> receiver(Call call) {
    if (queue_) (void)co_await queue_->recv(call);
  }
  Task<> destroyer() {
    queue_.reset();
    co_return;
  }
  std::optional<Mpsc<int>> queue_;
};

template <class M>
ModelSpec wrong(const char* name, const char* expected) {
  ModelSpec made = spec<M>(name);
  made.expected = expected;
  return made;
}

}  // namespace

void add_wrong_models(std::vector<ModelSpec>& to) {
  to.push_back(wrong<OppositeOrders>("wrong_opposite_orders", "oracle deadlock"));
  to.push_back(wrong<StaleLook>("wrong_stale_look", "oracle deadlock"));
  to.push_back(wrong<Poll>("wrong_poll", "oracle livelock"));
  to.push_back(wrong<Unreachable>("wrong_unreachable", "oracle surviving_task"));
  to.push_back(wrong<LockAtWait>("wrong_lock_at_wait", "oracle check: shard_->held_locks == 0"));
  to.push_back(wrong<DeadQueue>("wrong_dead_queue", "oracle check: receivers_.empty()"));
}

}  // namespace cairn::model
