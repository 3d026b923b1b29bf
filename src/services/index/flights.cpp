#include "services/index/flights.h"

#include <exception>
#include <utility>

namespace cairn::index {
namespace {

// One that waits for an answer.
struct Waiting : Errand<Waiting, FindingPtr> {
  explicit Waiting(Question what) : question(std::move(what)) {}
  Question question;
};
using WaitingList = List<Waiting, ErrandLink>;

// In one step of the dispatcher.
constexpr std::size_t taken_at_once = 64;

}  // namespace

class Flights::Home {
 public:
  Home(Flights& of, Shard& shard, Mailbox& mailbox, Work work)
      : arriving(shard, mailbox, {"too many wait for an answer", "no more questions are asked"}),
        of_(of),
        shard_(shard),
        work_(std::move(work)) {}

  // The flights live in this frame's scope, so that stopping the dispatcher stops them, and an abort too. One
  // that ends by an exception is told of when the dispatcher ends.
  Task<> run(Call call) {
    Scope scope(shard_, call);
    // Made before any flight is there: behind it nothing may fail for want of memory until they have ended.
    Task<> ended = scope.join_all(call);
    Task<> dispatching = dispatch(call, scope);
    std::exception_ptr problem;
    try {
      co_await std::move(dispatching);
    } catch (...) {
      problem = std::current_exception();
    }
    scope.cancel(StopReason::aborted);  // where it was not stopped for another reason
    try {
      co_await std::move(ended);
    } catch (...) {
      problem = std::current_exception();
    }
    if (call.stopped()) arriving.close();
    if (problem) std::rethrow_exception(problem);
  }

  ErrandHome<Waiting> arriving;

 private:
  // Those who wait for one answer. It belongs to its task. When it goes, however that is, they are answered.
  struct Flight {
    Flight(Home& at, const Question& what, PermitHold one) : home(at), question(what), place(std::move(one)) {
      home.flights_.emplace(question, this);
    }
    Flight(const Flight&) = delete;
    Flight& operator=(const Flight&) = delete;
    ~Flight() {
      home.touch();
      home.flights_.erase(question);
      while (!waiting.empty()) {
        Waiting& one = waiting.pop_front();
        one.result = result;
        home.arriving.answer(one);
      }
    }
    Home& home;
    Question question;
    PermitHold place;
    WaitingList waiting;
    std::size_t waiters = 0;
    Result<FindingPtr> result = fail(ErrorCode::internal, "the lookup broke");
  };
  using Table = std::unordered_map<Question, Flight*, QuestionHash>;

  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): of run(), which waits
  Task<> dispatch(Call call, Scope& scope) {
    while (!call.stopped() && co_await arriving.arrived(call)) {
      for (std::size_t i = 0; i < taken_at_once; ++i) {
        Waiting* one = arriving.next();
        if (one == nullptr) break;
        take(scope, *one);
      }
      co_await yield(call);
    }
  }

  void take(Scope& scope, Waiting& one) {
    touch();
    auto found = flights_.find(one.question);
    if (found == flights_.end()) {
      auto place = of_.flying_.try_hold();
      if (!place) return refuse(one, "too many lookups are under way");
      auto flight = std::make_unique<Flight>(*this, one.question, std::move(*place));
      found = flights_.find(one.question);
      scope.spawn("flight", fly(scope.call().within(of_.limits_.lasts_max), std::move(flight)),
                  Waits::bounded);
    }
    Flight& flight = *found->second;
    if (flight.waiters >= of_.limits_.waiters_max) return refuse(one, "too many wait for this answer");
    arriving.take(one);
    flight.waiting.push_back(one);
    ++flight.waiters;
  }
  void refuse(Waiting& one, const char* why) noexcept {
    arriving.take(one);
    arriving.refuse(one, {ErrorCode::busy, why});
  }

  static Task<> fly(Call call, std::unique_ptr<Flight> own) {
    const std::unique_ptr<Flight> flight = std::move(own);
    flight->result = co_await flight->home.work_(call, flight->question);
  }

  void touch() const noexcept { shard_.trace(identity_, Access::write); }

  Flights& of_;
  Shard& shard_;
  Work work_;
  std::uint64_t identity_ = shard_.new_identity();
  Table flights_{0, of_.hash_};
};

Flights::Flights(const FlightLimits& limits, std::uint64_t seed)
    : limits_(limits), hash_(seed), flying_(limits.flights_max), places_(limits.places) {}

Flights::~Flights() = default;

void Flights::attach(Shard& shard, Mailbox& mailbox, Work work) {
  homes_.push_back(std::make_unique<Home>(*this, shard, mailbox, std::move(work)));
}

Task<> Flights::run(Call call) { co_await homes_[current_shard()->index()]->run(call); }

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the asking shard's own
Task<Result<FindingPtr>> Flights::ask(Call call, Question question, Mailbox& from) {
  Home& home = *homes_[hash_(question) % homes_.size()];
  return home.arriving.ask(call, std::make_unique<Waiting>(std::move(question)), from, &places_);
}

}  // namespace cairn::index
