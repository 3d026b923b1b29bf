// Fair turns: askers on two shards who leave at any step, a scheduler that is stopped and started again,
// workers who come late or die, grants that are dropped. Mail is carried
// by tasks of their own, one for each shard.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "model/models.h"
#include "runtime/fair_turns.h"

namespace cairn::model {
namespace {

enum class Asker {
  plain,
  victim,  // cancelled at any moment
  hurried  // with a deadline
};

// A shard's mail.
struct Post {
  explicit Post(World& world) : bell(world.shard, 1), box([this] { (void)bell.try_send(0); }) {}
  Mpsc<int> bell;
  Mailbox box;
};
Task<> carry(Call call, Post& post) {
  for (;;) {
    post.box.drain();
    if (!post.box.arm())
      co_await yield(call);
    else if (!co_await post.bell.recv(call))
      co_return;
  }
}

struct Fair {
  std::vector<Asker> near;  // at home, of the first tenant
  std::vector<Asker> far;   // of the second
  std::uint64_t slots = 1;  // that each worker lends
  std::size_t sched = 4;
  std::uint64_t places = 4;
  bool near_worker = true, far_worker = true;
  bool mortal = false;   // the worker at home dies at any moment, and another comes in its place
  bool restart = false;  // so with the scheduler
  bool close = false;    // the queue ends at any moment, and its end waits for what is under way
};

class FairAskers : public Model {
 public:
  FairAskers(World& world, const Fair& fair)
      : world_(world),
        fair_(fair),
        places_(fair.places),
        victims_(world.shard, world.scope.call()),
        mortals_(world.shard, world.scope.call()) {
    Scope& scope = fair.restart || fair.mortal ? mortals_ : world.scope;
    world.scope.spawn("mail", carry(world.scope.call(), near_));
    world.scope.spawn("mail", carry(world.scope.call(), far_));
    (fair.restart ? scope : world.scope)
        .spawn("scheduler", schedule((fair.restart ? scope : world.scope).call(), fair.restart));
    if (fair.near_worker)
      (fair.mortal ? scope : world.scope)
          .spawn("worker", worker((fair.mortal ? scope : world.scope).call(), near_turns_, fair.mortal));
    if (fair.far_worker) world.scope.spawn("worker", worker(world.scope.call(), far_turns_, false));
    bool victims = false;
    for (const Asker kind : fair.near) victims = start(kind, near_turns_, first_) || victims;
    for (const Asker kind : fair.far) victims = start(kind, far_turns_, second_) || victims;
    if (victims) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
    if (fair.close) world.scope.spawn("closer", closer(world.scope.call()));
    if (fair.mortal || fair.restart) world.scope.spawn("death", cancels(mortals_, StopReason::aborted));
  }
  ~FairAskers() override {
    near_.box.drain();
    far_.box.drain();
    near_.box.drain();
    far_.box.drain();
  }
  bool may_wait_at_end(const TaskInfo& task) const override {
    const std::string_view name = task.name;
    return name == "mail" || name == "scheduler" || name == "worker";
  }
  void after_step() override {
    world_.expect(places_.taken() == scheduler_.waiting(), "leaked_place", "who does not wait has a place");
    world_.expect(places_.taken() <= places_.limit() + places_.limit() / 8, "bound",
                  "more wait than there are places");
  }
  void at_end() override {
    for (std::size_t i = 0; i < asked_; ++i)
      world_.expect(fates_[i].answers == 1, "lost_item", "an asker got no answer, or two");
    world_.expect(scheduler_.waiting() == 0, "leaked_place", "a place was not given back");
    world_.expect(scheduler_.out() == 0, "leaked_place", "a slot was not given back");
    world_.expect(first_.held() == 0 && second_.held() == 0, "leaked_place", "a tenant still holds a slot");
    world_.expect(first_.uses.load() == 0 && second_.uses.load() == 0, "leaked_job", "an entry is alive");
  }
  std::string state() const override {
    std::string out;
    for (std::size_t i = 0; i < asked_; ++i) out += fates_[i].told;
    return out;
  }

 private:
  struct Fate {
    Asker kind = Asker::plain;
    int answers = 0;
    char told = '.';
  };
  bool start(Asker kind, FairTurns& turns, DrrTenant& tenant) {
    const std::size_t number = asked_++;
    fates_[number].kind = kind;
    Scope& scope = kind == Asker::victim ? victims_ : world_.scope;
    scope.spawn("asker", asker(scope.call(), number, turns, tenant));
    return kind == Asker::victim;
  }
  Task<> schedule(Call call, bool again) {
    co_await scheduler_.run(call);
    if (again)
      world_.scope.spawn("scheduler", schedule(world_.scope.call(), false));  // as the supervisor does
  }
  Task<> worker(Call call, FairTurns& turns, bool mortal) {
    slots_ += fair_.slots;
    most_slots_ = std::max(most_slots_, slots_);
    co_await turns.work(call);
    slots_ -= fair_.slots;
    if (mortal) world_.scope.spawn("worker", worker(world_.scope.call(), turns, false));
  }
  Task<> closer(Call call) {
    closed_.edit() = true;
    for (FairTurns* turns : {&near_turns_, &far_turns_}) turns->close();
    for (FairTurns* turns : {&near_turns_, &far_turns_})
      world_.expect((co_await turns->settle(call)).has_value(), "lost_item", "the end of a queue never came");
    world_.expect(near_turns_.depth() == 0 && far_turns_.depth() == 0, "leaked_job",
                  "who waits is not known");
  }
  Task<> asker(Call call, std::size_t number, FairTurns& turns, DrrTenant& tenant) {
    Fate& fate = fates_[number];
    if (fate.kind == Asker::hurried) call = call.within(Duration::millis(1));
    auto turn = co_await turns.ask(call, {.cost = 1, .tenant = &tenant});
    ++fate.answers;
    if (!turn) return_code(fate, turn.error().code);
    if (!turn) co_return;
    fate.told = 'v';
    world_.expect(call.deadline() > world_.shard.now(), "late_item", "who came too late got a turn");
    running_.edit() += 1;
    world_.expect(running_.get() <= most_slots_, "too_many", "more turns are out than there are slots");
    world_.expect(scheduler_.out() >= running_.get(), "too_many", "a turn is out that holds no slot");
    co_await yield(call);
    running_.edit() -= 1;
  }
  void return_code(Fate& fate, ErrorCode code) {
    fate.told = code == ErrorCode::cancelled  ? 'c'
                : code == ErrorCode::timeout  ? 't'
                : code == ErrorCode::degraded ? 'x'
                                              : 'f';
    const bool fits = (code == ErrorCode::cancelled && fate.kind == Asker::victim) ||
                      (code == ErrorCode::timeout && fate.kind == Asker::hurried) ||
                      (code == ErrorCode::busy && fair_.places < asked_) ||
                      (code == ErrorCode::degraded && (fair_.sched < asked_ || closed_.get())) ||
                      (code == ErrorCode::closed && closed_.get());
    world_.expect(fits, "wrong_error", "a turn was refused for another reason");
  }

  World& world_;
  Fair fair_;
  Permits places_;
  DrrTenant first_, second_;
  Post near_{world_}, far_{world_};
  FairScheduler scheduler_{world_.shard, near_.box, places_};
  FairTurns near_turns_{scheduler_, world_.shard, near_.box, {fair_.sched, 1, fair_.slots}, {}};
  FairTurns far_turns_{scheduler_, world_.shard, far_.box, {fair_.sched, 1, fair_.slots}, {}};
  Scope victims_, mortals_;
  Shared<std::uint64_t> running_{world_, 0};
  Shared<bool> closed_{world_, false};
  std::array<Fate, 4> fates_{};
  std::size_t asked_ = 0;
  std::uint64_t slots_ = 0, most_slots_ = 0;
};

// A tenant steps aside, its request leaves, and its slot comes back while nobody waits: so nobody is told.
// Others take the slots, and it waits again.
class FairAside : public Model {
 public:
  explicit FairAside(World& world) : world_(world), victims_(world.shard, world.scope.call()) {
    Scope& scope = world.scope;
    scope.spawn("scheduler", scheduler_.run(scope.call()));
    scope.spawn("worker", turns_.work(scope.call()));
    scope.spawn("holder", holder(scope.call()));
    victims_.spawn("asker", asker(victims_.call(), 0));
    scope.spawn("asker", asker(scope.call(), 1));
    scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
  }
  ~FairAside() override { box_.drain(); }
  bool may_wait_at_end(const TaskInfo& task) const override {
    const std::string_view name = task.name;
    return name == "scheduler" || name == "worker";
  }
  void at_end() override {
    world_.expect(told_[0] != '.' && told_[1] == 'v', "lost_item",
                  "a slot is free, and who waits has no turn");
    world_.expect(scheduler_.waiting() == 0 && places_.taken() == 0, "leaked_place",
                  "a place was not given back");
    world_.expect(scheduler_.out() == 0, "leaked_place", "a slot was not given back");
    world_.expect(first_.uses.load() == 0, "leaked_job", "an entry is alive");
  }
  std::string state() const override { return {told_.begin(), told_.end()}; }

 private:
  Task<> holder(Call call) {
    {
      const auto turn = co_await turns_.ask(call, {.cost = 1, .tenant = &first_});
      co_await yield(call);
    }
    const auto one = turns_.try_take({.cost = 1, .tenant = &second_});
    const auto two = turns_.try_take({.cost = 1, .tenant = &third_});
    co_await yield(call);
  }
  Task<> asker(Call call, std::size_t number) {
    const auto turn = co_await turns_.ask(call, {.cost = 1, .tenant = &first_});
    told_[number] = turn ? 'v' : 'c';
  }

  World& world_;
  Permits places_{4};
  DrrTenant first_, second_, third_;
  Mailbox box_{[] {}};
  FairScheduler scheduler_{world_.shard, box_, places_};
  FairTurns turns_{scheduler_, world_.shard, box_, {4, 1, 2}, {}};
  Scope victims_;
  std::array<char, 2> told_{'.', '.'};
};

// The far shard takes the only slot and gives it back, twice, while two wait at home: each time its bell must
// be heard, whether the one before was already or not.
class FairBell : public Model {
 public:
  explicit FairBell(World& world) : world_(world) {
    Scope& scope = world.scope;
    scope.spawn("mail", carry(scope.call(), home_));
    scope.spawn("scheduler", scheduler_.run(scope.call()));
    scope.spawn("worker", near_.work(scope.call()));
    scope.spawn("holder", holder(scope.call()));
    for (char& told : told_) scope.spawn("asker", asker(scope.call(), told));
  }
  ~FairBell() override { home_.box.drain(); }
  bool may_wait_at_end(const TaskInfo& task) const override {
    const std::string_view name = task.name;
    return name == "mail" || name == "scheduler" || name == "worker";
  }
  void at_end() override {
    world_.expect(told_[0] == 'v' && told_[1] == 'v', "lost_item", "who waits has no turn");
    world_.expect(scheduler_.out() == 0 && scheduler_.waiting() == 0, "leaked_place",
                  "a slot or a place was not given back");
  }
  std::string state() const override { return {told_.begin(), told_.end()}; }

 private:
  Task<> holder(Call call) {
    for (int i = 0; i < 2; ++i) {
      {
        const auto turn = far_.try_take({.cost = 1, .tenant = &second_});
        co_await yield(call);
      }
      co_await yield(call);
    }
  }
  Task<> asker(Call call, char& told) {
    const auto turn = co_await near_.ask(call, {.cost = 1, .tenant = &first_});
    told = turn ? 'v' : 'f';
  }

  World& world_;
  Permits places_{4};
  DrrTenant first_, second_;
  Post home_{world_};
  Mailbox away_{[] {}};  // nothing is sent there
  FairScheduler scheduler_{world_.shard, home_.box, places_};
  FairTurns near_{scheduler_, world_.shard, home_.box, {4, 1, 1}, {}};
  FairTurns far_{scheduler_, world_.shard, away_, {4, 1, 1}, {}};
  std::array<char, 2> told_{'.', '.'};
};

}  // namespace

void add_fair_models(std::vector<ModelSpec>& to) {
  using enum Asker;
  const auto add = [&](const char* name, Fair fair) {
    to.push_back({name, [=](World& world) { return std::make_unique<FairAskers>(world, fair); }});
  };
  add("fair_near", {.near = {plain, plain}, .far = {}, .far_worker = false});
  add("fair_near_leave", {.near = {victim, plain}, .far = {}, .far_worker = false});
  add("fair_near_deadline", {.near = {hurried, plain}, .far = {}, .far_worker = false});
  add("fair_near_death", {.near = {plain, plain}, .far = {}, .far_worker = false, .mortal = true});
  add("fair_near_restart", {.near = {plain, plain}, .far = {}, .far_worker = false, .restart = true});
  add("fair_full", {.near = {plain, plain}, .far = {}, .places = 1, .far_worker = false});
  add("fair_dropped",
      {.near = {plain, plain, plain}, .far = {}, .slots = 4, .sched = 1, .far_worker = false});
  add("fair_far", {.near = {}, .far = {plain}, .near_worker = false});
  add("fair_far_leave", {.near = {}, .far = {victim}, .near_worker = false});
  add("fair_far_deadline", {.near = {}, .far = {hurried}, .near_worker = false});
  // At the end of a drain whoever still waits is cancelled.
  add("fair_close", {.near = {victim, victim}, .far = {}, .far_worker = false, .close = true});
  add("fair_far_close", {.near = {}, .far = {victim}, .near_worker = false, .close = true});
  to.push_back(spec<FairAside>("fair_aside"));
  to.push_back(spec<FairBell>("fair_bell"));
  add("fair_both", {.near = {plain}, .far = {plain}, .far_worker = true});
}

}  // namespace cairn::model
