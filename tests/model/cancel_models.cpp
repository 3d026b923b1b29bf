// Scopes and stops: a cancel reaches everything below it and nothing shielded, an abort reaches all, a join
// waits for all, and of deadline, cancel and completion exactly one ends a wait.
#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "model/models.h"
#include "runtime/mpsc.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

// An item, a deadline and a cancel race for one wait, over and over on the same queue.
class DeadlineCompletion : public Model {
 public:
  explicit DeadlineCompletion(World& world)
      : world_(world), victims_(world.shard, world.scope.call()), queue_(world.shard, 2) {
    world.scope.spawn("waiter", waiter(world.scope.call()));
    world.scope.spawn("sender", sender(world.scope.call()));
    world.scope.spawn("canceller", cancels(victims_, StopReason::superseded));
  }
  void at_end() override {
    world_.expect(got_ <= 2, "doubled_item", "an item came twice");
    world_.expect(got_ + static_cast<int>(queue_.depth()) == 2, "lost_item",
                  "an item was lost with its wait");
  }
  std::string state() const override { return outcomes_; }

 private:
  Task<> waiter(Call call) {
    const Call narrow = call.under(victims_.source());
    for (int i = 0; i < 3; ++i) {
      auto item = co_await queue_.recv(narrow.within(Duration::seconds(1)));
      if (item) {
        ++got_;
        outcomes_ += 'i';
      } else if (item.error().code == ErrorCode::timeout) {
        world_.expect(item.error().stop == StopReason::deadline, "wrong_error",
                      "a timeout without its reason");
        outcomes_ += 't';
      } else {
        world_.expect(item.error() == Error(ErrorCode::cancelled, "", Side::self, StopReason::superseded),
                      "wrong_error", "a wait ended by something else");
        outcomes_ += 'c';
      }
    }
    world_.expect((co_await sleep_for(call, Duration::seconds(1))).has_value(), "wrong_error",
                  "a sleep was cut short");
  }
  Task<> sender(Call call) {
    for (int i = 0; i < 2; ++i) {
      (void)queue_.try_send(int(i));
      co_await yield(call);
    }
  }

  World& world_;
  Scope victims_;
  Mpsc<int> queue_;
  int got_ = 0;
  std::string outcomes_;
};

// A task opens a scope of its own below one that may be stopped at any moment: also before the inner one is
// made, and after its tasks wait. An abort follows the cancel when `abort`, and must reach what is shielded.
class CancelTree : public Model {
 public:
  CancelTree(World& world, bool abort)
      : world_(world), abort_(abort), outer_(world.shard, world.scope.call()) {
    world.scope.spawn("parent", parent(world.scope.call()));
    outer_.spawn("sibling", leaf(outer_.call(), false));
    world.scope.spawn("stopper", stopper(world.scope.call()));
  }
  void at_end() override {
    world_.expect(ended_ == leaves, "surviving_task", "a leaf did not see the stop");
    world_.expect(outer_.empty(), "surviving_task", "a scope that was stopped has tasks");
  }
  std::string state() const override { return fmt::format("ended={}", ended_); }

 private:
  static constexpr int leaves = 3;

  Task<> parent(Call call) {
    co_await yield(call);
    Scope inner(world_.shard, outer_.call());
    inner.spawn("leaf", leaf(inner.call(), false));
    inner.spawn("shielded-leaf", leaf(inner.call(), abort_));
    // Whatever stops this task, its scope is left empty.
    co_await inner.join_all(call);
  }
  Task<> leaf(Call call, bool shielded) {
    co_await yield(call);
    auto slept = co_await sleep_until(shielded ? call.shield() : call, Instant::never());
    world_.expect(!slept && slept.error().code == ErrorCode::cancelled, "wrong_error",
                  "a leaf ended by itself");
    world_.expect(!shielded || aborted_.get(), "shield", "a cancel ended what is shielded");
    world_.expect(slept.error().stop == StopReason::draining, "wrong_reason",
                  "the stop came with another reason");
    ++ended_;
  }
  Task<> stopper(Call call) {
    outer_.cancel(StopReason::draining);
    if (!abort_) co_return;
    co_await yield(call);
    aborted_.edit() = true;
    outer_.abort();
  }

  World& world_;
  bool abort_;
  Scope outer_;
  Shared<bool> aborted_{world_, false};
  int ended_ = 0;
};

// Work that must not stop half way takes two shielded steps; a cancel at any moment ends only what is
// outside.
class ShieldedCommit : public Model {
 public:
  explicit ShieldedCommit(World& world)
      : world_(world),
        victims_(world.shard, world.scope.call()),
        work_(world.shard, 1),
        acks_(world.shard, 1) {
    victims_.spawn("committer", committer(victims_.call()));
    world.scope.spawn("disk", disk(world.scope.call()));
    world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
  }
  void at_end() override {
    world_.expect(begun_ == committed_, "half_done", "a commit was begun and not ended");
  }
  std::string state() const override { return fmt::format("begun={} committed={}", begun_, committed_); }

 private:
  Task<> committer(Call call) {
    for (int i = 0; i < 2; ++i) {
      if (call.stopped()) break;
      const Call shielded = call.shield();
      ++begun_;
      auto sent = co_await work_.send(shielded, i);
      world_.expect(sent.has_value(), "shield", "a cancel ended what is shielded");
      auto acked = co_await acks_.recv(shielded);
      world_.expect(acked.has_value(), "shield", "a cancel ended what is shielded");
      ++committed_;
      co_await yield(call);
    }
    work_.close();
  }
  Task<> disk(Call call) {
    for (;;) {
      auto item = co_await work_.recv(call);
      if (!item) break;
      co_await yield(call);
      if (!co_await acks_.send(call, *item)) break;
    }
  }

  World& world_;
  Scope victims_;
  Mpsc<int> work_, acks_;
  int begun_ = 0, committed_ = 0;
};

// Joiners of a scope whose tasks start more tasks, and one that ends with an exception: when join says so,
// all have ended, and everyone who joins is told.
class ScopeJoin : public Model {
 public:
  ScopeJoin(World& world, int joiners, bool throws)
      : world_(world), throws_(throws), inner_(world.shard, world.scope.call()) {
    inner_.spawn("first", first(inner_.call()));
    for (int i = 0; i < joiners; ++i) world.scope.spawn("joiner", joiner(world.scope.call(), i));
    world.scope.spawn("late", late());
  }
  void at_end() override {
    world_.expect(started_ == ended_, "surviving_task", "a task started and did not end");
    world_.expect(inner_.empty(), "surviving_task", "the scope has tasks");
    world_.expect(thrown_ <= 1, "doubled_item", "an exception was reported twice");
  }
  std::string state() const override {
    return fmt::format("started={} thrown={} timeouts={}", started_, thrown_, timeouts_);
  }

 private:
  Task<> first(Call call) {
    ++started_;
    inner_.spawn("second", second(call));
    co_await yield(call);
    ++ended_;
  }
  Task<> second(Call call) {
    ++started_;
    co_await yield(call);
    ++ended_;
    if (throws_) throw std::runtime_error("second");
  }
  // Puts another task into the scope at any moment, also between the wake of a joiner and its step.
  Task<> late() {
    inner_.spawn("second", second(inner_.call()));
    co_return;
  }
  Task<> joiner(Call call, int number) {
    for (bool hurried = number == 0;; hurried = false) {
      try {
        auto joined = co_await inner_.join(hurried ? call.within(Duration::seconds(1)) : call);
        if (!joined && hurried && joined.error().code == ErrorCode::timeout) {
          ++timeouts_;
          continue;
        }
        world_.expect(joined.has_value(), "wrong_error", "a join ended by itself");
      } catch (const std::runtime_error&) {
        ++thrown_;
      }
      world_.expect(inner_.empty() && inner_.size() == 0, "join_early", "join returned with tasks alive");
      co_return;
    }
  }

  World& world_;
  bool throws_;
  Scope inner_;
  int started_ = 0, ended_ = 0, thrown_ = 0, timeouts_ = 0;
};

}  // namespace

void add_cancel_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<DeadlineCompletion>("deadline_vs_completion"));
  to.push_back(spec<CancelTree>("cancel_tree", false));
  to.push_back(spec<CancelTree>("cancel_then_abort", true));
  to.push_back(spec<ShieldedCommit>("shielded_commit"));
  to.push_back(spec<ScopeJoin>("scope_join", 2, false));
  to.push_back(spec<ScopeJoin>("scope_join_exception", 1, true));
}

}  // namespace cairn::model
