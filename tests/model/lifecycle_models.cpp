// How a service lives and ends: supervisor restarts racing a stop, and a drain begun at every step of the
// work.
#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "model/models.h"
#include "runtime/drain.h"
#include "runtime/supervisor.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

struct Service {
  int tasks;
  int throws;       // how often each task throws before it stays
  bool by_parent;   // the stop comes from the scope above
  bool abort;       // tasks are shielded, and an abort follows the stop
  bool late_start;  // another task is started at any moment
};

constexpr TaskDeclaration tasks[] = {{"task", "model", "some", Criticality::essential, "", ""}};

// Tasks that throw and are restarted; a stop at any moment; a joiner.
class RestartShutdown : public Model {
 public:
  RestartShutdown(World& world, Service service)
      : world_(world),
        service_(service),
        parent_(world.shard, world.scope.call()),
        supervisor_(world.shard, tasks, service.by_parent ? parent_.call() : world.scope.call()) {
    for (int i = 0; i < service.tasks; ++i) CHECK(start());
    world.scope.spawn("stopper", stopper(world.scope.call()));
    world.scope.spawn("joiner", joiner(world.scope.call()));
    if (service.late_start) world.scope.spawn("starter", starter());
  }
  void after_step() override {
    world_.expect(!stopped_ || !world_.shard.idle() || world_.shard.timers().empty(), "slow_stop",
                  "a stopped supervisor waits for a timer");
  }
  void at_end() override {
    world_.expect(joined_, "lost_shutdown", "the join did not end");
    world_.expect(supervisor_.size() == 0, "surviving_task", "a task outlived the stop");
    world_.expect(alive_ == 0, "surviving_task", "a body outlived the stop");
    world_.expect(supervisor_.healthy(), "unhealthy", "few restarts made it unhealthy");
  }
  std::string state() const override {
    return fmt::format("runs={} thrown={} refused={}", runs_, thrown_, refused_);
  }

 private:
  Result<> start() {
    return supervisor_.start("task", [this, thrown = 0](Call call) mutable {
      world_.expect(!stopped_, "restart_after_stop", "a task was started after the stop");
      world_.expect(!joined_, "restart_after_stop", "a task was started after the join");
      return body(call, thrown++ < service_.throws);
    });
  }
  Task<> body(Call call, bool throws) {
    ++alive_;
    ++runs_;
    if (throws) {
      co_await yield(call);
      --alive_;
      ++thrown_;
      throw std::runtime_error("body");
    }
    auto slept = co_await sleep_until(service_.abort ? call.shield() : call, Instant::never());
    world_.expect(!service_.abort || aborted_, "shield", "a stop ended what is shielded");
    world_.expect(!slept && slept.error().stop == StopReason::draining, "wrong_reason",
                  "another reason than the stop's");
    --alive_;
  }
  Task<> stopper(Call call) {
    stopped_ = true;
    if (service_.by_parent)
      parent_.cancel(StopReason::draining);
    else
      supervisor_.drain(StopReason::draining);
    if (!service_.abort) co_return;
    co_await yield(call);
    aborted_ = true;
    supervisor_.abort();
  }
  Task<> joiner(Call call) {
    auto joined = co_await supervisor_.join(call);
    if (!joined) co_return;
    world_.expect(alive_ == 0 && supervisor_.size() == 0, "join_early", "join returned with tasks alive");
    joined_ = true;
  }
  Task<> starter() {
    const bool stopped = stopped_;
    auto started = start();
    world_.expect(started.has_value() == !stopped, "wrong_error", "a start was refused, or not");
    if (!started) ++refused_;
    co_return;
  }

  World& world_;
  Service service_;
  Scope parent_;
  Supervisor supervisor_;
  bool stopped_ = false, aborted_ = false, joined_ = false;
  int alive_ = 0, runs_ = 0, thrown_ = 0, refused_ = 0;
};

// What happens after the begin: nothing; the deadline; a second signal, which aborts; the same begin again; a
// begin that would allow more time; a cancel of whoever drains.
enum class Hurry { none, deadline, abort_now, again, later, cancel };

struct Shutdown {
  int workers;
  Hurry hurry;
  bool loop = false;      // a loop that ends with the stop arm
  bool stubborn = false;  // a task that only the abort ends
  bool throws = false;    // the workers end with an exception
};

// Workers are admitted, work for some steps and leave; a drain begins at any moment.
class DrainEverywhere : public Model {
 public:
  DrainEverywhere(World& world, Shutdown shutdown)
      : world_(world),
        shutdown_(shutdown),
        tasks_(world.shard, world.scope.call()),
        drainers_(world.shard, world.scope.call()),
        drain_(world.shard) {
    for (int i = 0; i < shutdown.workers; ++i) tasks_.spawn("worker", worker(tasks_.call()));
    if (shutdown.loop) tasks_.spawn("loop", loop(tasks_.call()));
    if (shutdown.stubborn) tasks_.spawn("stubborn", stubborn(tasks_.call()));
    drainers_.spawn("drainer", drainer(drainers_.call()));
    if (shutdown.loop) world.scope.spawn("watcher", watcher(world.scope.call()));
    if (shutdown.hurry == Hurry::cancel)
      world.scope.spawn("canceller", cancels(drainers_, StopReason::superseded));
    else if (shutdown.hurry >= Hurry::abort_now)
      world.scope.spawn("signal", signal(world.scope.call()));
  }
  void after_step() override {
    const DrainState state = drain_.state();
    world_.expect(state >= newest_, "state_order", "the state moved back");
    newest_ = state;
    world_.expect(drain_.deadline() <= deadline_, "deadline_widened", "the deadline moved away");
    deadline_ = drain_.deadline();
  }
  void at_end() override {
    if (!result_ && caught_) result_.emplace();
    if (!result_) return world_.fail("lost_shutdown", "the drain did not end");
    world_.expect(drain_.state() == DrainState::stopped, "lost_shutdown", "the end was not told");
    world_.expect(drain_.inflight() == 0, "guard_leak", "somebody is inside for ever");
    world_.expect(watched_ == shutdown_.loop, "lost_shutdown", "who waits for the drain was not told");
    world_.expect(tasks_.empty(), "surviving_task", "a task outlived the drain");
    world_.expect(result_->still_alive.empty() || hurried(), "surviving_task", "the drain left a task alive");
    if (!hurried()) {
      world_.expect(result_->drained(), "early_abort", "work was aborted that had time");
      world_.expect(done_ == admitted_, "early_abort", "admitted work was stopped");
    }
    world_.expect(!result_->drained() || done_ == admitted_, "wrong_report", "drained, but work was stopped");
  }
  std::string state() const override {
    return fmt::format("admitted={} done={} refused={} aborted={} alive={}", admitted_, done_, refused_,
                       result_ ? result_->aborted : 99, result_ ? result_->still_alive.size() : 99);
  }

 private:
  bool hurried() const { return shutdown_.hurry != Hurry::none && shutdown_.hurry != Hurry::again; }

  Task<> worker(Call call) {
    auto guard = drain_.try_enter();
    if (!guard) {
      world_.expect(begun_, "wrong_error", "refused before the drain began");
      ++refused_;
      co_return;
    }
    world_.expect(!begun_, "late_admission", "admitted after the drain began");
    ++admitted_;
    co_await yield(call);
    DrainGuard part = drain_.enter(*guard);
    *guard = DrainGuard();
    if (!co_await sleep_for(call, Duration::millis(1))) co_return;
    ++done_;
    if (shutdown_.throws) throw std::runtime_error("worker");
  }
  Task<> loop(Call call) {
    auto arm = co_await select(call, drain_.stopping());
    world_.expect(arm.has_value() ? begun_ : call.stopped(), "wrong_arm",
                  "the stop arm was reported without a stop");
  }
  Task<> watcher(Call call) {
    if (!co_await drain_.wait_drained(call)) co_return;
    world_.expect(begun_ && drain_.inflight() == 0, "drained_early", "drained was told with somebody inside");
    watched_ = true;
  }
  Task<> stubborn(Call call) {
    (void)co_await sleep_until(call.shield(), Instant::never());
    world_.expect(drain_.state() >= DrainState::aborting, "early_abort", "an abort without its state");
  }
  Task<> drainer(Call call) {
    begun_ = true;
    const bool endless = shutdown_.hurry != Hurry::deadline && shutdown_.hurry != Hurry::later;
    drain_.begin(endless ? Instant::never() : world_.shard.now() + Duration::seconds(3));
    co_await yield(call);
    try {
      result_.emplace(co_await drain_.finish(call, tasks_));
      world_.expect(!result_->drained() || tasks_.empty(), "wrong_report", "drained, but tasks are alive");
    } catch (const std::runtime_error&) {
      world_.expect(tasks_.empty(), "join_early", "an exception was told with tasks alive");
      caught_ = true;
    }
  }
  Task<> signal(Call call) {
    if (!co_await select(call, drain_.stopping())) co_return;
    if (shutdown_.hurry == Hurry::abort_now)
      drain_.abort_now();
    else
      drain_.begin(Instant::never());
  }

  World& world_;
  Shutdown shutdown_;
  Scope tasks_, drainers_;
  Drain drain_;
  std::optional<DrainResult> result_;
  DrainState newest_ = DrainState::running;
  Instant deadline_ = Instant::never();
  bool begun_ = false, caught_ = false, watched_ = false;
  int admitted_ = 0, done_ = 0, refused_ = 0;
};

}  // namespace

void add_lifecycle_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<RestartShutdown>("supervisor_restart_shutdown", Service{2, 1, false, false, false}));
  to.push_back(spec<RestartShutdown>("supervisor_parent_stop", Service{1, 2, true, false, false}));
  to.push_back(spec<RestartShutdown>("supervisor_abort", Service{1, 1, false, true, false}));
  to.push_back(spec<RestartShutdown>("supervisor_late_start", Service{1, 1, false, false, true}));
  to.push_back(spec<DrainEverywhere>("drain_every_step", Shutdown{2, Hurry::none, true}));
  to.push_back(spec<DrainEverywhere>("drain_deadline", Shutdown{2, Hurry::deadline}));
  to.push_back(spec<DrainEverywhere>("drain_deadline_stubborn", Shutdown{1, Hurry::deadline, false, true}));
  to.push_back(spec<DrainEverywhere>("drain_second_signal", Shutdown{1, Hurry::abort_now, true, true}));
  to.push_back(spec<DrainEverywhere>("drain_begun_again", Shutdown{1, Hurry::again, true}));
  to.push_back(spec<DrainEverywhere>("drain_begun_later", Shutdown{1, Hurry::later}));
  to.push_back(spec<DrainEverywhere>("drain_cancelled", Shutdown{1, Hurry::cancel, false, true}));
  to.push_back(spec<DrainEverywhere>("drain_exception", Shutdown{1, Hurry::abort_now, false, false, true}));
}

}  // namespace cairn::model
