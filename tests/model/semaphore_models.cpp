// Semaphore: permits are conserved whatever is cancelled or late, and handed out in the order of asking.
#include <fmt/format.h>

#include <string>

#include "model/models.h"
#include "runtime/guarded.h"
#include "runtime/semaphore.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

struct Users {
  std::size_t permits;
  int plain;              // wait as long as it takes
  int victims;            // may be cancelled at any moment, all at once
  int hurried;            // have a deadline
  int rounds;             // of each user
  std::size_t grown = 0;  // permits that are added at any moment
};

class SemaphoreUsers : public Model {
 public:
  SemaphoreUsers(World& world, Users users)
      : world_(world),
        users_(users),
        victims_(world.shard, world.scope.call()),
        semaphore_(world.shard, users.permits) {
    for (int i = 0; i < users.plain; ++i) world.scope.spawn("plain", use(world.scope.call(), Kind::plain));
    for (int i = 0; i < users.victims; ++i) victims_.spawn("victim", use(victims_.call(), Kind::victim));
    for (int i = 0; i < users.hurried; ++i)
      world.scope.spawn("hurried", use(world.scope.call(), Kind::hurried));
    if (users.grown > 0) world.scope.spawn("grower", grow());
    if (users.victims > 0) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
  }
  void after_step() override {
    world_.expect(held_ + semaphore_.available() <= permits_, "permit_conservation",
                  "more permits are held or available than exist");
  }
  void at_end() override {
    world_.expect(semaphore_.available() == permits_, "permit_conservation", "a permit was lost");
  }
  std::string state() const override {
    return fmt::format("got={} late={} cancelled={}", got_, late_, cancelled_);
  }

 private:
  enum class Kind { plain, victim, hurried };

  Task<> use(Call call, Kind kind) {
    for (int i = 0; i < users_.rounds; ++i) {
      auto permit =
          co_await semaphore_.acquire(kind == Kind::hurried ? call.within(Duration::seconds(1)) : call);
      if (!permit) {
        const ErrorCode code = permit.error().code;
        world_.expect((kind == Kind::hurried && code == ErrorCode::timeout) ||
                          (kind == Kind::victim && code == ErrorCode::cancelled),
                      "wrong_error", "an acquire ended by something else");
        ++(kind == Kind::hurried ? late_ : cancelled_);
        co_return;
      }
      ++held_;
      ++got_;
      co_await yield(call);
      --held_;
    }
  }

  // Nobody else gives a permit back to those who wait, if it is the last to run.
  Task<> grow() {
    permits_ += users_.grown;
    semaphore_.grow(users_.grown);
    co_return;
  }

  World& world_;
  Users users_;
  Scope victims_;
  Semaphore semaphore_;
  std::size_t permits_ = users_.permits;
  std::size_t held_ = 0;
  int got_ = 0, late_ = 0, cancelled_ = 0;
};

// One permit: who asked first has it first, and who only tries never overtakes.
class SemaphoreOrder : public Model {
 public:
  explicit SemaphoreOrder(World& world) : world_(world), semaphore_(world.shard, 1) {
    for (char who : {'a', 'b', 'c'}) world.scope.spawn("user", use(world.scope.call(), who));
    world.scope.spawn("trier", tries(world.scope.call()));
  }
  void at_end() override {
    world_.expect(granted_ == asked_, "order", "a permit was granted out of order");
    world_.expect(semaphore_.available() == 1, "permit_conservation", "a permit was lost");
  }
  std::string state() const override { return granted_; }

 private:
  Task<> use(Call call, char who) {
    asked_ += who;
    auto permit = co_await semaphore_.acquire(call);
    if (!permit) co_return;
    granted_ += who;
    co_await yield(call);
  }
  Task<> tries(Call call) {
    for (int i = 0; i < 2; ++i) {
      {
        auto permit = semaphore_.try_acquire();
        if (permit) world_.expect(asked_.size() == granted_.size(), "order", "a try overtook those who wait");
      }
      co_await yield(call);
    }
  }

  World& world_;
  Semaphore semaphore_;
  std::string asked_, granted_;
};

// Locks in rising rank inside steps that interleave: none is held when a step ends.
class GuardedSteps : public Model {
 public:
  explicit GuardedSteps(World& world) : world_(world) {
    for (int i = 0; i < 2; ++i) world.scope.spawn("adder", adder(world.scope.call()));
  }
  void after_step() override {
    world_.expect(world_.shard.held_locks == 0, "lock_at_suspension", "a lock is held between two steps");
  }
  void at_end() override {
    world_.expect(low_.with([](int& n) { return n; }) == 6, "lost_update", "an addition was lost");
  }
  std::string state() const override { return fmt::format("{}", most_); }

 private:
  Task<> adder(Call call) {
    for (int i = 0; i < 3; ++i) {
      const int sum = low_.with([this](int& n) { return ++n + high_.with([](int& m) { return ++m; }); });
      most_ = std::max(most_, sum);
      co_await yield(call);
    }
  }
  World& world_;
  Guarded<int, 1> low_{0};
  Guarded<int, 2> high_{0};
  int most_ = 0;
};

}  // namespace

void add_semaphore_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<SemaphoreUsers>("semaphore1_cancel", Users{1, 2, 1, 0, 1}));
  to.push_back(spec<SemaphoreUsers>("semaphore2_cancel", Users{2, 2, 2, 0, 1}));
  to.push_back(spec<SemaphoreUsers>("semaphore1_cancel_all", Users{1, 1, 2, 0, 2}));
  to.push_back(spec<SemaphoreUsers>("semaphore1_deadline", Users{1, 1, 0, 2, 1}));
  to.push_back(spec<SemaphoreUsers>("semaphore1_cancel_deadline", Users{1, 1, 1, 1, 1}));
  to.push_back(spec<SemaphoreUsers>("semaphore0_grow", Users{0, 2, 0, 0, 1, 1}));
  to.push_back(spec<SemaphoreUsers>("semaphore1_grow_cancel", Users{1, 1, 1, 0, 1, 2}));
  to.push_back(spec<SemaphoreOrder>("semaphore_order"));
  to.push_back(spec<GuardedSteps>("guarded_steps"));
}

}  // namespace cairn::model
