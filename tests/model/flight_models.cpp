// Shared and borrowed work: single-flight with a dying leader, pool jobs whose waiter leaves, a token bucket
// whose takers give up.
#include <fmt/format.h>

#include <array>
#include <deque>
#include <stdexcept>
#include <string>

#include "model/models.h"
#include "runtime/mpsc.h"
#include "runtime/pool.h"
#include "runtime/single_flight.h"
#include "runtime/token_bucket.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

enum class Death { none, cancel, deadline, exception };

// Callers of one key. Those that may die are the first ones to ask in some orders and the last in others.
class DyingLeader : public Model {
 public:
  DyingLeader(World& world, int mortals, int callers, Death death)
      : world_(world), death_(death), flights_(world.shard, 2, 8) {
    for (int i = 0; i < mortals; ++i) {
      if (death == Death::cancel) {
        Scope& victim = *victims_.emplace_back(std::make_unique<Scope>(world.shard, world.scope.call()));
        victim.spawn("mortal", ask(victim.call(), true));
        world.scope.spawn("canceller", cancels(victim, StopReason::client_gone));
      } else {
        world.scope.spawn("mortal", ask(world.scope.call(), true));
      }
    }
    for (int i = 0; i < callers; ++i) world.scope.spawn("caller", ask(world.scope.call(), false));
    asked_ = mortals + callers;
  }
  void after_step() override {
    world_.expect(running_ <= 1, "two_at_once", "two executions of one key run at once");
    world_.expect(runs_ <= leads_ + deaths_, "not_shared", "a caller ran what it should have shared");
  }
  void at_end() override {
    world_.expect(answers_ == asked_, "lost_item", "a caller got no answer");
    world_.expect(flights_.keys() == 0, "leaked_key", "a key is in flight with nobody flying");
  }
  std::string state() const override {
    return fmt::format("runs={} deaths={} leads={} stopped={}", runs_, deaths_, leads_, stopped_);
  }

 private:
  // The work of one caller: two steps, the second ends by the death of a mortal.
  struct Work {
    DyingLeader* model;
    bool mortal;
    Task<Result<int>> operator()(Call call) const { return model->work(call, mortal); }
  };
  Task<Result<int>> work(Call call, bool mortal) {
    ++running_;
    ++runs_;
    auto slept = co_await sleep_for(call, Duration::millis(1));
    --running_;
    if (mortal && death_ == Death::exception) {
      ++deaths_;
      throw std::runtime_error("work");
    }
    if (!slept) {
      ++deaths_;
      co_return fail(slept.error());
    }
    co_return 7;
  }
  Task<> ask(Call call, bool mortal) {
    if (mortal && death_ == Death::deadline) call = call.within(Duration::nanos(1));
    if (flights_.keys() == 0) ++leads_;  // it leads by right: nobody flies
    try {
      auto answer = co_await flights_.run(call, 1, Work{this, mortal});
      if (answer) {
        world_.expect(*answer == 7, "wrong_answer", "an answer nobody gave");
      } else {
        ++stopped_;
        world_.expect(mortal, "wrong_error", "a caller died with its leader");
        const bool fits = death_ == Death::cancel
                              ? answer.error().code == ErrorCode::cancelled
                              : death_ == Death::deadline && answer.error().code == ErrorCode::timeout;
        world_.expect(fits, "wrong_error", "a stop of another kind");
      }
    } catch (const std::runtime_error&) {
      world_.expect(mortal && death_ == Death::exception, "wrong_error",
                    "a caller got its leader's exception");
    }
    ++answers_;
  }

  World& world_;
  Death death_;
  std::vector<std::unique_ptr<Scope>> victims_;  // each is stopped by itself
  SingleFlight<int, int> flights_;
  int asked_ = 0, answers_ = 0, running_ = 0, runs_ = 0, deaths_ = 0, leads_ = 0, stopped_ = 0;
};

// A pool of one thread that is itself a task: work and completion are steps of their own.
class StepPool final : public Pool {
 public:
  explicit StepPool(World& world, std::size_t capacity = 8)
      : queue_(world, {}), bell_(world.shard, 8), capacity_(capacity) {}
  Result<> try_submit(Lane, PoolJob& job) override {
    if (queue_.edit().size() >= capacity_) return fail(ErrorCode::busy, "pool");
    TRY_VOID(bell_.try_send(0));
    queue_.edit().push_back(&job);
    return {};
  }
  bool try_withdraw(Lane lane, PoolJob& job) noexcept override {
    if (std::erase(queue_.edit(), &job) == 0) return false;
    tell_room(lane);
    return true;
  }
  std::uint64_t completed(Lane) const noexcept override { return 0; }

  Task<> serve(Call call) {
    while (co_await bell_.recv(call)) {
      if (queue_.edit().empty()) continue;  // taken back
      PoolJob* job = queue_.edit().front();
      queue_.edit().pop_front();
      tell_room(Lane::read);
      job->work();
      co_await yield(call);
      (void)queue_.edit();  // a completion is news to whoever withdraws
      job->completed();
    }
  }

 private:
  Shared<std::deque<PoolJob*>> queue_;
  Mpsc<int> bell_;
  std::size_t capacity_;
};

// Jobs whose waiter may leave by a deadline or a cancel while they are queued, run, or complete.
class PoolOrphans : public Model {
 public:
  PoolOrphans(World& world, int hurried, int victims)
      : world_(world), victims_(world.shard, world.scope.call()), pool_(world), asked_(hurried + victims) {
    world.scope.spawn("lane", pool_.serve(world.scope.call()));
    for (int i = 0; i < hurried; ++i) world.scope.spawn("hurried", ask(world.scope.call(), true, i));
    for (int i = 0; i < victims; ++i) victims_.spawn("victim", ask(victims_.call(), false, hurried + i));
    if (victims > 0) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
  }
  bool may_wait_at_end(const TaskInfo& task) const override { return std::string_view(task.name) == "lane"; }
  void at_end() override {
    world_.expect(answered_ + left_ == asked_, "lost_item", "a job got no answer");
    world_.expect(pool_.jobs() == 0, "leaked_job", "a job is alive with nobody waiting and nothing running");
    world_.expect(pool_.orphaned() == 0, "leaked_job", "a completed job is still counted as orphaned");
  }
  std::string state() const override {
    return fmt::format("answered={} left={} ran={}", answered_, left_, ran_);
  }

 private:
  struct Fate {
    bool ran = false, given_up = false;
  };
  struct Count {
    PoolOrphans* model;
    std::size_t number;
    int operator()() const {
      Fate& fate = model->fates_[number];
      model->world_.expect(!fate.ran, "doubled_item", "a job ran twice");
      model->world_.expect(!fate.given_up, "phantom_item", "a job that was taken back ran");
      fate.ran = true;
      ++model->ran_;
      return static_cast<int>(number);
    }
  };
  Task<> ask(Call call, bool hurried, int number) {
    const auto index = static_cast<std::size_t>(number);
    auto answer = co_await run(pool_, hurried ? call.within(Duration::seconds(1)) : call, Lane::read,
                               Count{this, index});
    if (answer) {
      world_.expect(*answer == number, "wrong_answer", "an answer of another job");
      ++answered_;
    } else {
      fates_[index].given_up = !fates_[index].ran;
      ++left_;
    }
  }

  World& world_;
  Scope victims_;
  StepPool pool_;
  int asked_;
  std::array<Fate, 4> fates_{};
  int answered_ = 0, left_ = 0, ran_ = 0;
};

// Takers that give up at any moment: over all time never more is granted than the burst and the rate allow,
// and what was given back is there for the next.
class BucketTakers : public Model {
 public:
  BucketTakers(World& world, int plain, int victims)
      : world_(world),
        victims_(world.shard, world.scope.call()),
        bucket_(world.shard, Rate{burst}, Bytes{burst}) {
    for (int i = 0; i < victims; ++i) victims_.spawn("victim", take(victims_.call(), true));
    for (int i = 0; i < plain; ++i) world.scope.spawn("taker", take(world.scope.call(), false));
    if (victims > 0) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
    world.scope.spawn("last", last(world.scope.call()));
    takers_ = plain + victims;
  }
  void after_step() override {
    const auto now = static_cast<std::uint64_t>(world_.shard.now().ns / 1'000'000);
    world_.expect(granted_ * 1'000 <= burst * 1'000 + burst * now, "rate",
                  "more was granted than the rate allows");
  }
  void at_end() override { world_.expect(last_done_, "lost_item", "the last taker got nothing"); }
  std::string state() const override { return fmt::format("granted={}", granted_); }

 private:
  static constexpr std::uint64_t burst = 100;

  Task<> take(Call call, bool may_fail) {
    auto taken = co_await bucket_.take(call, burst);
    if (taken)
      granted_ += burst;
    else
      world_.expect(may_fail && taken.error().code == ErrorCode::cancelled, "wrong_error",
                    "a take ended by itself");
    if (++ended_.edit() == takers_) (void)all_ended_.try_send(0);
  }
  // When all have ended, the wait for a burst is what was granted above the first burst, less the time gone
  // by.
  Task<> last(Call call) {
    if (!co_await all_ended_.recv(call)) co_return;
    const Instant asked = world_.shard.now();
    const Instant due = Instant{} + Duration::seconds(static_cast<std::int64_t>(granted_ / burst));
    if (!co_await bucket_.take(call, burst)) co_return;
    world_.expect(world_.shard.now() <= std::max(due, asked), "lost_tokens", "what was given back is gone");
    granted_ += burst;
    last_done_ = true;
  }

  World& world_;
  Scope victims_;
  TokenBucket bucket_;
  Mpsc<int> all_ended_{world_.shard, 1};
  Shared<int> ended_{world_, 0};
  int takers_ = 0;
  std::uint64_t granted_ = 0;
  bool last_done_ = false;
};

}  // namespace

void add_flight_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<DyingLeader>("single_flight_cancel", 1, 2, Death::cancel));
  to.push_back(spec<DyingLeader>("single_flight_cancel_two", 2, 1, Death::cancel));
  to.push_back(spec<DyingLeader>("single_flight_deadline", 1, 2, Death::deadline));
  to.push_back(spec<DyingLeader>("single_flight_exception", 1, 2, Death::exception));
  to.push_back(spec<DyingLeader>("single_flight_shared", 0, 3, Death::none));
  to.push_back(spec<PoolOrphans>("pool_orphan_deadline", 2, 0));
  to.push_back(spec<PoolOrphans>("pool_orphan_cancel", 1, 2));
  to.push_back(spec<BucketTakers>("token_bucket_cancel", 1, 2));
}

}  // namespace cairn::model
