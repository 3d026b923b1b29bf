// A handover: askers who leave at any step, workers who take, die or end at any step.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

#include "model/models.h"
#include "runtime/handover.h"

namespace cairn::model {
namespace {

enum class Asker {
  plain,
  victim,  // cancelled at any moment
  hurried  // with a deadline
};

struct Handed {
  std::vector<Asker> askers;
  int workers = 1;
  std::uint64_t places = 4;
  bool close = false;   // at any moment
  bool mortal = false;  // the first worker dies over its first job
};

class HandoverAskers : public Model {
 public:
  HandoverAskers(World& world, const Handed& handed)
      : world_(world),
        workers_(handed.workers),
        mortal_(handed.mortal),
        places_(handed.places),
        victims_(world.shard, world.scope.call()) {
    for (int i = 0; i < handed.workers; ++i) world.scope.spawn("worker", worker(world.scope.call()));
    for (const Asker kind : handed.askers) {
      const std::size_t number = asked_++;
      fates_[number].kind = kind;
      Scope& scope = kind == Asker::victim ? victims_ : world.scope;
      scope.spawn("asker", asker(scope.call(), number));
      victim_ = victim_ || kind == Asker::victim;
    }
    if (victim_) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
    if (handed.close) world.scope.spawn("closer", closer());
  }
  bool may_wait_at_end(const TaskInfo& task) const override {
    return std::string_view(task.name) == "worker";
  }
  void at_end() override {
    for (std::size_t i = 0; i < asked_; ++i)
      world_.expect(fates_[i].answers == 1, "lost_item", "an asker got no answer, or two");
    world_.expect(places_.taken() == 0, "leaked_place", "a place was not given back");
    world_.expect(handover_.depth() == 0, "leaked_place", "a place is still queued");
  }
  std::string state() const override {
    std::string out;
    for (std::size_t i = 0; i < asked_; ++i)
      out += fmt::format("{}{} ", fates_[i].begun ? 'b' : '-', fates_[i].told);
    return out;
  }

 private:
  struct Job : HandedOver {
    Job(const Call& call, std::size_t n) : HandedOver(call), number(n) {}
    std::size_t number;
  };
  struct Fate {
    Asker kind = Asker::plain;
    std::size_t turn = 0;  // when it was queued; 0: not
    bool begun = false, let_go = false, lost = false;
    int answers = 0;
    char told = '.';
    std::optional<Job> job;
  };

  Task<> asker(Call call, std::size_t number) {
    Fate& fate = fates_[number];
    if (fate.kind == Asker::hurried) call = call.within(Duration::millis(1));
    fate.job.emplace(call, number);
    const auto done = co_await handover_.ask(*fate.job, [this, number] { fates_[number].turn = ++turns_; });
    ++fate.answers;
    world_.expect(!fate.begun || fate.let_go, "early_return", "an asker went on while its job was worked on");
    // Its memory is another's now: whoever still points to it finds a job that nobody queued.
    fate.job.emplace(world_.scope.call(), number);
    if (done) {
      fate.told = 'v';
      world_.expect(fate.begun && !fate.lost, "phantom_item", "what was not done was answered as done");
      co_return;
    }
    const ErrorCode code = done.error().code;
    fate.told = code == ErrorCode::cancelled ? 'c'
                : code == ErrorCode::timeout ? 't'
                : code == ErrorCode::busy    ? 'f'
                : code == ErrorCode::closed  ? 'd'
                                             : 'l';
    if (code == ErrorCode::internal) {
      world_.expect(fate.lost, "wrong_error", "a worker that lives was called dead");
      co_return;
    }
    world_.expect(!fate.begun, "lost_item", "what was begun was answered as not begun");
    const bool fits = (code == ErrorCode::cancelled && fate.kind == Asker::victim) ||
                      (code == ErrorCode::timeout && fate.kind == Asker::hurried) ||
                      (code == ErrorCode::busy && places_.limit() < asked_) ||
                      (code == ErrorCode::closed && closed_.get());
    world_.expect(fits, "wrong_error", "a job was refused for another reason");
  }

  Task<> worker(Call call) {
    try {
      while (auto place = co_await handover_.arrived(call)) {
        auto begun = handover_.begin(*place);
        if (!begun) continue;
        Fate& fate = fates_[(*begun).number];
        world_.expect(fate.answers == 0, "phantom_item", "what its asker gave up was begun");
        world_.expect((*begun).call().deadline() > world_.shard.now(), "late_item",
                      "what came too late was begun");
        world_.expect(!fate.begun, "doubled_item", "a job was begun twice");
        // Of two workers that were woken the explorer may run either first.
        world_.expect(workers_ > 1 || fate.turn > last_turn_, "order", "a job was overtaken");
        last_turn_ = fate.turn;
        fate.begun = true;
        co_await yield(call);
        fate.let_go = true;
        if (std::exchange(mortal_, false)) {
          fate.lost = true;
          throw std::runtime_error("worker");
        }
        begun.done();
      }
    } catch (const std::runtime_error&) {
      world_.scope.spawn("worker", worker(call));  // as the supervisor does
    }
  }
  Task<> closer() {
    closed_.edit() = true;
    handover_.close();
    co_return;
  }

  World& world_;
  int workers_;
  bool mortal_;
  Permits places_;
  Handover<Job> handover_{world_.shard, places_};
  Scope victims_;
  bool victim_ = false;
  Shared<bool> closed_{world_, false};
  std::array<Fate, 4> fates_{};
  std::size_t asked_ = 0, turns_ = 0, last_turn_ = 0;
};

}  // namespace

void add_handover_models(std::vector<ModelSpec>& to) {
  using enum Asker;
  const auto add = [&](const char* name, Handed handed) {
    to.push_back({name, [=](World& world) { return std::make_unique<HandoverAskers>(world, handed); }});
  };
  add("handover_leave", {.askers = {victim, hurried, plain}});
  add("handover_workers", {.askers = {plain, victim, hurried}, .workers = 2});
  add("handover_full", {.askers = {victim, plain, hurried}, .places = 1});
  add("handover_close", {.askers = {plain, victim}, .close = true});
  add("handover_death", {.askers = {plain, victim, hurried}, .mortal = true});
}

}  // namespace cairn::model
