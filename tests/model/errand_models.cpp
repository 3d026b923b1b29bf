// Errands: askers at home and on another shard, who leave at any step, and a home that takes, answers, puts
// back, closes or goes at any step. Mail is carried by tasks of their own, one for each shard.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "model/models.h"
#include "runtime/errand.h"
#include "runtime/mpsc.h"

namespace cairn::model {
namespace {

enum class Asker {
  plain,
  victim,   // cancelled at any moment
  hurried,  // with a deadline
  leaver    // does not wait for the answer
};
enum class End { none, close, gone };

struct Errands {
  std::vector<Asker> near;  // at home
  std::vector<Asker> far;
  End end = End::none;
  bool again = false;  // the first that home takes is put back once
};

class ErrandAskers : public Model {
 public:
  ErrandAskers(World& world, Errands errands)
      : world_(world), again_(errands.again), victims_(world.shard, world.scope.call()) {
    Scope& scope = errands.end == End::none ? world.scope : home_scope_;
    scope.spawn("home", serve(scope.call()));
    for (const Asker kind : errands.near) start(kind, near_);
    for (const Asker kind : errands.far) start(kind, far_);
    if (victim_) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
    if (!errands.far.empty()) {
      world.scope.spawn("mail", carry(world.scope.call(), near_));
      world.scope.spawn("mail", carry(world.scope.call(), far_));
    }
    if (errands.end != End::none) world.scope.spawn("ender", ender(world.scope.call(), errands.end));
  }
  ~ErrandAskers() override {
    near_.box.drain();
    home_.reset();
    far_.box.drain();
  }
  bool may_wait_at_end(const TaskInfo& task) const override {
    return std::string_view(task.name) == "mail" || std::string_view(task.name) == "home";
  }
  void at_end() override {
    for (std::size_t i = 0; i < asked_; ++i) {
      world_.expect(fates_[i].answers == 1, "lost_item", "an errand got no answer, or two");
      if (fates_[i].kind == Asker::leaver && !ended_.get())
        world_.expect(fates_[i].begun, "lost_item", "what nobody waits for was not done");
    }
    world_.expect(alive_ == 0, "leaked_job", "an errand is alive with nobody waiting");
    world_.expect(places_.taken() == 0, "leaked_job", "a place was not given back");
  }
  std::string state() const override {
    std::string out;
    for (std::size_t i = 0; i < asked_; ++i)
      out += fmt::format("{}{} ", fates_[i].begun ? 'b' : '-', fates_[i].told);
    return out;
  }

 private:
  struct Job : Errand<Job, int> {
    Job(ErrandAskers& of, std::size_t n, Instant until) : model(of), number(n), due(until) { ++model.alive_; }
    ~Job() { --model.alive_; }
    ErrandAskers& model;
    std::size_t number;
    Instant due;
  };
  struct Fate {
    Asker kind = Asker::plain;
    bool begun = false;
    int answers = 0;
    char told = '.';  // v: value, or what was wrong
  };
  // A shard's mail.
  struct Post {
    explicit Post(World& world) : bell(world.shard, 1), box([this] { (void)bell.try_send(0); }) {}
    Mpsc<int> bell;
    Mailbox box;
  };

  void start(Asker kind, Post& from) {
    const std::size_t number = asked_++;
    fates_[number].kind = kind;
    victim_ = victim_ || kind == Asker::victim;
    Scope& scope = kind == Asker::victim ? victims_ : world_.scope;
    scope.spawn("asker", kind == Asker::leaver ? leaver(number, from) : asker(scope.call(), number, from));
  }
  Task<> carry(Call call, Post& post) {
    for (;;) {
      post.box.drain();
      if (!post.box.arm())
        co_await yield(call);
      else if (!co_await post.bell.recv(call))
        co_return;
    }
  }

  Task<> asker(Call call, std::size_t number, Post& from) {
    Fate& fate = fates_[number];
    if (fate.kind == Asker::hurried) call = call.within(Duration::millis(1));
    const bool late = ended_.get();
    if (late && !home_) {
      ++fate.answers;
      co_return;
    }
    auto job = std::make_unique<Job>(*this, number, call.deadline());
    const auto answer = co_await home_->ask(call, std::move(job), from.box, &places_);
    ++fate.answers;
    if (answer) {
      fate.told = 'v';
      world_.expect(*answer == static_cast<int>(number), "wrong_answer", "an answer of another errand");
      world_.expect(fate.begun && !late, "phantom_item", "what was not begun was answered as done");
      co_return;
    }
    const ErrorCode code = answer.error().code;
    fate.told = code == ErrorCode::cancelled ? 'c' : code == ErrorCode::timeout ? 't' : 'd';
    const bool fits = (code == ErrorCode::cancelled && fate.kind == Asker::victim) ||
                      (code == ErrorCode::timeout && fate.kind == Asker::hurried) ||
                      (code == ErrorCode::draining && ended_.get());
    world_.expect(fits, "wrong_error", "an errand was refused for another reason");
  }
  Task<> leaver(std::size_t number, Post& from) {
    ++fates_[number].answers;
    if (!ended_.get() || home_)
      world_.expect(home_->leave(std::make_unique<Job>(*this, number, Instant::never()), from.box, &places_)
                        .has_value(),
                    "wrong_error", "an errand was refused with places left");
    co_return;
  }

  Task<> serve(Call call) {
    while (co_await home_->arrived(call))
      while (Job* job = home_->next()) {
        Fate& fate = fates_[job->number];
        world_.expect(fate.kind == Asker::leaver || fate.answers == 0, "phantom_item",
                      "what its asker gave up was begun");
        world_.expect(job->due > world_.shard.now(), "late_item", "what came too late was begun");
        world_.expect(!fate.begun || back_ == job, "doubled_item", "an errand was begun twice");
        world_.expect(back_ == nullptr || back_ == job || left_, "order",
                      "one that was put back was overtaken");
        fate.begun = true;
        home_->take(*job);
        back_ = nullptr;
        co_await yield(call);
        if (std::exchange(again_, false)) {
          List<Job, ErrandLink> again;
          again.push_back(*job);
          back_ = job;
          left_ = fate.kind == Asker::victim;  // it may go, and is not the next then
          home_->put_back(again);
          continue;
        }
        job->result = static_cast<int>(job->number);
        home_->answer(*job);
      }
  }
  Task<> ender(Call call, End end) {
    home_scope_.cancel(StopReason::draining);
    if (!co_await home_scope_.join(call)) co_return;
    ended_.edit() = true;
    if (end == End::close) {
      home_->close();
    } else {
      near_.box.drain();
      home_.reset();
    }
  }

  World& world_;
  bool again_;
  bool victim_ = false;
  Scope victims_;
  Scope home_scope_{world_.shard, world_.scope.call()};
  Post near_{world_}, far_{world_};
  Permits places_{8};
  std::optional<ErrandHome<Job>> home_{std::in_place, world_.shard, near_.box,
                                       ErrandHome<Job>::Words{"full", "closed"}};
  Shared<bool> ended_{world_, false};
  std::array<Fate, 4> fates_{};
  std::size_t asked_ = 0;
  int alive_ = 0;
  const Job* back_ = nullptr;
  bool left_ = false;
};

}  // namespace

void add_errand_models(std::vector<ModelSpec>& to) {
  using enum Asker;
  const auto add = [&](const char* name, Errands errands) {
    to.push_back({name, [=](World& world) { return std::make_unique<ErrandAskers>(world, errands); }});
  };
  add("errand_near", {.near = {victim, hurried, plain}, .far = {}});
  add("errand_near_close", {.near = {plain, victim, leaver}, .far = {}, .end = End::close});
  add("errand_cancel", {.near = {}, .far = {victim, plain}});
  add("errand_deadline", {.near = {plain}, .far = {hurried}});
  add("errand_close", {.near = {plain}, .far = {victim}, .end = End::close});
  add("errand_gone", {.near = {plain, leaver}, .far = {plain}, .end = End::gone});
  add("errand_gone_far", {.near = {}, .far = {victim, leaver}, .end = End::gone});
  add("errand_again", {.near = {victim, leaver, plain}, .far = {}, .again = true});
}

}  // namespace cairn::model
