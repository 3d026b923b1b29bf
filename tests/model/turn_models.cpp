// Turns: askers who leave at any step, workers who die or end at any step.
#include <fmt/format.h>

#include <array>
#include <string>

#include "model/models.h"
#include "runtime/turn.h"

namespace cairn::model {
namespace {

enum class Asker {
  plain,
  victim,   // cancelled at any moment
  hurried,  // with a deadline
  patient   // with a later one
};

struct Asked {
  std::vector<Asker> askers;
  int workers = 1;
  std::uint64_t places = 4;
  bool close = false;   // at any moment
  bool mortal = false;  // the first worker dies at any moment, and another comes in its place
};

class TurnAskers : public Model {
 public:
  TurnAskers(World& world, const Asked& asked)
      : world_(world),
        places_(asked.places),
        victims_(world.shard, world.scope.call()),
        mortals_(world.shard, world.scope.call()) {
    for (int i = 0; i < asked.workers; ++i) {
      const bool mortal = asked.mortal && i == 0;
      Scope& scope = mortal ? mortals_ : world.scope;
      scope.spawn("worker", worker(scope.call(), mortal));
    }
    if (asked.mortal) world.scope.spawn("death", cancels(mortals_, StopReason::aborted));
    bool victims = false;
    for (const Asker kind : asked.askers) {
      const std::size_t number = asked_++;
      fates_[number].kind = kind;
      Scope& scope = kind == Asker::victim ? victims_ : world.scope;
      scope.spawn("asker", asker(scope.call(), number));
      victims = victims || kind == Asker::victim;
    }
    if (victims) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
    if (asked.close) world.scope.spawn("closer", closer());
  }
  bool may_wait_at_end(const TaskInfo& task) const override {
    return std::string_view(task.name) == "worker" && !closed_.get();
  }
  void after_step() override {
    world_.expect(places_.taken() <= places_.limit(), "bound", "more wait than there are places");
    world_.expect(turns_.depth() == places_.taken(), "leaked_place", "who does not wait has a place");
  }
  void at_end() override {
    for (std::size_t i = 0; i < asked_; ++i)
      world_.expect(fates_[i].answers == 1, "lost_item", "an asker got no answer, or two");
    world_.expect(places_.taken() == 0, "leaked_place", "a place was not given back");
    world_.expect(turns_.depth() == 0 && turns_.out() == 0, "leaked_place", "a turn is still out");
  }
  std::string state() const override {
    std::string out;
    for (std::size_t i = 0; i < asked_; ++i) out += fates_[i].told;
    return out;
  }

 private:
  struct Fate {
    Asker kind = Asker::plain;
    std::size_t number = 0;  // in the order of asking
    int answers = 0;
    char told = '.';
  };

  Task<> asker(Call call, std::size_t number) {
    Fate& fate = fates_[number];
    if (fate.kind == Asker::hurried) call = call.within(Duration::millis(1));
    if (fate.kind == Asker::patient) call = call.within(Duration::millis(9));
    fate.number = ++asks_;
    const std::size_t workers_then = workers_;
    auto turn = co_await turns_.ask(call);
    ++fate.answers;
    if (!turn) {
      const ErrorCode code = turn.error().code;
      fate.told = code == ErrorCode::cancelled ? 'c' : code == ErrorCode::timeout ? 't' : 'f';
      const bool fits =
          (code == ErrorCode::cancelled && fate.kind == Asker::victim) ||
          (code == ErrorCode::timeout && (fate.kind == Asker::hurried || fate.kind == Asker::patient)) ||
          (code == ErrorCode::busy && places_.limit() < asked_) ||
          (code == ErrorCode::closed && closed_.get());
      world_.expect(fits, "wrong_error", "a turn was refused for another reason");
      co_return;
    }
    fate.told = 'v';
    world_.expect(call.deadline() > world_.shard.now(), "late_item", "who came too late got a turn");
    running_.edit() += 1;
    // A worker may have died since; whoever had a turn then keeps it.
    world_.expect(static_cast<std::size_t>(running_.get()) <= std::max(workers_then, most_workers_),
                  "too_many", "more turns are out than there are workers");
    // Of two that were granted at once the explorer may run either first.
    world_.expect(most_workers_ > 1 || fate.number > last_, "order", "somebody was overtaken");
    last_ = fate.number;
    co_await yield(call);
    running_.edit() -= 1;
  }

  Task<> worker(Call call, bool mortal) {
    workers_ += 1;
    most_workers_ = std::max(most_workers_, workers_);
    co_await turns_.work(call);
    workers_ -= 1;
    if (mortal) world_.scope.spawn("worker", worker(world_.scope.call(), false));  // as the supervisor does
  }
  Task<> closer() {
    closed_.edit() = true;
    turns_.close();
    co_return;
  }

  World& world_;
  Permits places_;
  FifoOrder order_;
  Turns turns_{world_.shard, places_, order_};
  Scope victims_, mortals_;
  Shared<bool> closed_{world_, false};
  Shared<int> running_{world_, 0};
  std::array<Fate, 4> fates_{};
  std::size_t asked_ = 0, asks_ = 0, last_ = 0, workers_ = 0, most_workers_ = 0;
};

}  // namespace

void add_turn_models(std::vector<ModelSpec>& to) {
  using enum Asker;
  const auto add = [&](const char* name, Asked asked) {
    to.push_back({name, [=](World& world) { return std::make_unique<TurnAskers>(world, asked); }});
  };
  add("turn_leave", {.askers = {victim, hurried, plain}});
  add("turn_late", {.askers = {plain, hurried, patient}});
  add("turn_workers", {.askers = {plain, victim, hurried}, .workers = 2});
  add("turn_full", {.askers = {victim, plain, hurried}, .places = 1});
  add("turn_close", {.askers = {plain, plain}, .close = true});
  add("turn_death", {.askers = {plain, victim, hurried}, .mortal = true});
}

}  // namespace cairn::model
