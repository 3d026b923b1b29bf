#include "services/index/lookup.h"

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

#include "runtime/scope.h"

namespace cairn::index {
namespace {

enum class Wave : std::uint8_t { alpha, beta };

}  // namespace

Targets best_first(Targets targets, const BreakerTable::Snapshot& breakers, const std::string& region) {
  const auto rank = [&](const TargetPtr& target) {
    const Breaker::State state = breakers.state_of(target->name());
    const int shut = state == Breaker::State::closed ? 0 : state == Breaker::State::half_open ? 1 : 2;
    const bool far = region.empty() || target->facts().region != region;
    return std::tuple(shut, target->facts().latency_class, far, std::string_view(target->name()));
  };
  std::ranges::sort(targets, {}, rank);
  return targets;
}

// One lookup, in the frame of Lookups::run().
class Lookups::Run {
 public:
  Run(Lookups& of, const Call& call, Question question, Targets targets, const LookupPolicy& policy)
      : of_(of),
        policy_(policy),
        targets_(std::move(targets)),
        began_(of.shard_.now()),
        deadline_(began_ + policy.deadline),
        tally_(std::move(question), of.judge_, of.shard_.wall()),
        scope_(of.shard_, call),
        call_(call.under(scope_.source()).by(deadline_)) {}

  Task<Result<Finding>> go(Call call) {
    // Made before any task is there: behind it nothing may fail for want of memory until they have ended.
    Task<> ended = scope_.join_all(call);
    Task<Result<>> settling = settle(call.by(deadline_));
    Result<> settled;
    std::exception_ptr problem;
    try {
      settled = co_await std::move(settling);
    } catch (...) {
      problem = std::current_exception();
    }
    ended_at_ = of_.shard_.now();
    scope_.cancel(StopReason::superseded);
    co_await std::move(ended);
    of_.events_.ended(ended_at_ - began_);
    if (problem) std::rethrow_exception(problem);
    co_return conclude(settled);
  }

 private:
  // A target that was asked. One that ends by an exception has failed.
  class Asked {
   public:
    explicit Asked(Run& run) noexcept : run_(&run) {}
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;
    ~Asked() { fail(); }
    void answer(Answer answer, Wave wave) {
      Run& run = *std::exchange(run_, nullptr);
      const bool undecided = run.tally_.verdict() != Tally::Verdict::found;
      run.tally_.answered(std::move(answer));
      if (undecided) run.beta_won_ = wave == Wave::beta;
      run.wake_all();
    }
    void fail() noexcept {
      if (run_ == nullptr) return;
      Run& run = *std::exchange(run_, nullptr);
      run.tally_.failed();
      run.wake_all();
    }
    // The lookup is over without it.
    void leave() noexcept { run_ = nullptr; }

   private:
    Run* run_;
  };

  // Waits until the tally has decided; an error when the deadline or a stop came first.
  Task<Result<>> settle(Call call) {
    launch(policy_.alpha, Wave::alpha);
    while (tally_.verdict() == Tally::Verdict::undecided || tally_.verdict() == Tally::Verdict::failed) {
      const bool may_hedge = !hedged_at_ && next_ < targets_.size();
      const Instant hedge_at = began_ + policy_.hedge;
      if (may_hedge && (tally_.all_ended() || hedge_at <= of_.shard_.now())) {
        hedged_at_ = of_.shard_.now();
        launch(policy_.beta, Wave::beta);
        continue;
      }
      if (tally_.all_ended()) co_return Result<>{};
      const auto woken = co_await ListWait(may_hedge ? call.by(hedge_at) : call, changed_, "lookup");
      if (woken || (may_hedge && woken.error().code == ErrorCode::timeout && !call.expired())) continue;
      co_return fail(woken.error());
    }
    co_return Result<>{};
  }

  void launch(std::size_t count, Wave wave) {
    while (count > 0 && next_ < targets_.size()) {
      TargetPtr target = targets_[next_++];
      auto attempt = try_begin(*target);
      if (!attempt) continue;
      Task<> asking = ask(call_, std::move(target), std::move(*attempt), wave);
      tally_.count_asked();
      scope_.spawn("target", std::move(asking), Waits::bounded);
      --count;
    }
  }

  std::optional<BreakerTable::Try> try_begin(const Target& target) {
    auto attempt = of_.breakers_.try_begin(target.name(), of_.mailbox_);
    if (!attempt) {
      any_shut_ = true;
      of_.events_.shut(target);
    }
    return attempt;
  }

  Task<> ask(Call call, TargetPtr target, BreakerTable::Try attempt, Wave wave) {
    Asked asked(*this);
    for (unsigned retry = 0;; ++retry) {
      const Instant asked_at = of_.shard_.now();
      auto answer = co_await target->ask(call, tally_.question());
      if (answer) {
        attempt.end(true);
        co_return asked.answer(std::move(*answer), wave);
      }
      // At the deadline the lookup may have cancelled it before its own timer came: it is late all the same.
      const bool late = call.expired();
      if (call.stopped() && !late) co_return asked.leave();
      const Fault fault = late ? Fault::late : fault_of(answer.error());
      if (fault == Fault::late) of_.events_.late(*target);
      // A target that had little time was not slow.
      if (fault != Fault::late || of_.shard_.now() - asked_at >= policy_.hedge) attempt.end(false);
      if (fault != Fault::passing || retry == policy_.retries) co_return;
      if (!co_await sleep_for(call, jitter())) {
        if (call.stopped()) asked.leave();
        co_return;
      }
      auto again = try_begin(*target);
      if (!again) co_return;
      attempt = std::move(*again);
      of_.events_.retried(*target);
    }
  }

  Duration jitter() noexcept {
    const auto span = static_cast<std::uint64_t>((policy_.jitter_most - policy_.jitter_least).ns);
    return policy_.jitter_least +
           Duration::nanos(static_cast<std::int64_t>(of_.shard_.random().below(span + 1)));
  }
  void wake_all() noexcept {
    while (!changed_.empty()) wake(changed_.front());
  }

  // An answer that came in the last moment is as good as any other.
  Result<Finding> conclude(const Result<>& settled) {
    const Tally::Verdict verdict = tally_.verdict();
    if (verdict == Tally::Verdict::found) {
      Waves waves{.alpha = ended_at_ - began_, .beta_won = beta_won_};
      if (hedged_at_) waves.beta = ended_at_ - *hedged_at_;
      return Finding{std::move(tally_).take(), waves};
    }
    if (!settled) return fail(settled.error());
    if (verdict == Tally::Verdict::not_here) return fail(ErrorCode::not_found, "no target has it");
    if (tally_.asked() > 0) return fail(ErrorCode::timeout, "no target answered", Side::upstream);
    if (any_shut_) return fail(ErrorCode::breaker_open, "every target failed too often", Side::upstream);
    return fail(ErrorCode::degraded, "there is no target to ask");
  }

  Lookups& of_;
  LookupPolicy policy_;
  Targets targets_;
  std::size_t next_ = 0;  // the best that was not asked yet
  Instant began_, deadline_, ended_at_{};
  std::optional<Instant> hedged_at_;
  Tally tally_;
  WaitList changed_;
  bool any_shut_ = false, beta_won_ = false;
  Scope scope_;
  Call call_;  // of the targets
};

Task<Result<Finding>> Lookups::run(Call call, Question question, Targets targets, LookupPolicy policy) {
  Run run(*this, call, std::move(question), std::move(targets), policy);
  co_return co_await run.go(call);
}

}  // namespace cairn::index
