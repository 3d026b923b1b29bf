// The index: a hedged lookup whose targets answer, break or keep silent; flights whose callers leave; probes
// of a half-open breaker that race. All of the service's own code.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "model/models.h"
#include "runtime/mpsc.h"
#include "runtime/wait.h"
#include "services/index/flights.h"

namespace cairn::model {
namespace {

using index::Answer;
using index::Finding;
using index::FindingPtr;
using index::Question;

Question sample_question() {
  Address address;
  address.bytes.fill(std::byte{1});
  return address;
}
// Not signed: a lookup takes what was decoded.
Answer sample_answer() {
  index::SignedProvider provider;
  provider.record.address = std::get<Address>(sample_question());
  provider.record.endpoints.push_back({{}, 7400, false});
  provider.record.sequence = 1;
  provider.record.expiry = WallTime{1'000'000'000};
  Answer answer;
  answer.providers.push_back(std::move(provider));
  return answer;
}
struct Anything final : index::Judge {
  bool accepts(const format::NameChange&) const override { return true; }
  bool accepts(const format::ProviderRecord&) const override { return true; }
};

// ---- the hedged lookup

enum class Does { finds, lacks, breaks, silent };

struct Hedging {
  std::vector<Does> targets;
  std::size_t alpha = 1, beta = 1;
  unsigned retries = 0;
  bool cancelled = false;  // at any moment
};

class HedgedLookup : public Model {
 public:
  HedgedLookup(World& world, Hedging how)
      : world_(world), how_(std::move(how)), caller_(world.shard, world.scope.call()) {
    for (std::size_t i = 0; i < how_.targets.size(); ++i)
      targets_.push_back(std::make_shared<ModelTarget>(*this, i, how_.targets[i]));
    caller_.spawn("caller", look_up(caller_.call()));
    if (how_.cancelled) world.scope.spawn("canceller", cancels(caller_, StopReason::draining));
  }
  void after_step() override {
    std::size_t asked = 0;
    for (const auto& target : targets_) {
      asked += target->asked > 0 ? 1 : 0;
      world_.expect(target->under_way <= 1, "two_at_once", "a target is asked twice at once");
      world_.expect(target->asked <= static_cast<int>(1 + how_.retries), "too_many",
                    "a target is asked too often");
    }
    world_.expect(asked <= how_.alpha + how_.beta, "bound", "too many targets are asked");
  }
  void at_end() override {
    world_.expect(answers_ == 1, "lost_item", "the caller got no answer, or two");
    for (const auto& target : targets_)
      world_.expect(target->under_way == 0, "leaked_job", "a target is asked for nobody");
  }
  std::string state() const override {
    std::string out(1, told_);
    for (const auto& target : targets_) out += fmt::format(" {}{}", target->asked, target->end);
    return out;
  }

 private:
  struct ModelTarget final : index::Target {
    ModelTarget(HedgedLookup& of, std::size_t number, Does what)
        : Target({.name = fmt::format("t{}", number)}), model(of), does(what) {}
    Task<Result<Answer>> ask(Call call, Question) override {
      touch.edit() += 1;
      ++asked;
      ++under_way;
      const Instant until = does == Does::silent ? Instant::never() : world_now() + Duration::millis(10);
      const auto slept = co_await sleep_until(call, until);
      touch.edit() += 1;
      --under_way;
      if (!slept) {
        end = slept.error().code == ErrorCode::timeout ? 't' : 'c';
        co_return fail(slept.error());
      }
      end = does == Does::finds ? 'v' : does == Does::lacks ? 'n' : 'b';
      if (does == Does::breaks) co_return fail(ErrorCode::connection_lost, "a model", Side::upstream);
      co_return does == Does::finds ? sample_answer() : Answer{};
    }
    Instant world_now() const { return model.world_.shard.now(); }
    HedgedLookup& model;
    Does does;
    Shared<int> touch{model.world_, 0};
    int asked = 0, under_way = 0;
    mutable bool late = false;
    char end = '.';
  };

  struct Lates final : index::LookupEvents {
    void late(const index::Target& target) noexcept override {
      static_cast<const ModelTarget&>(target).late = true;
    }
  };
  Task<> look_up(Call call) {
    const index::LookupPolicy policy{.alpha = how_.alpha,
                                     .beta = how_.beta,
                                     .hedge = Duration::millis(15),
                                     .deadline = Duration::millis(100),
                                     .retries = how_.retries,
                                     .jitter_least = Duration::millis(5),
                                     .jitter_most = Duration::millis(5)};
    index::Targets targets(targets_.begin(), targets_.end());
    const auto found = co_await lookups_.run(call, sample_question(), std::move(targets), policy);
    ++answers_;
    for (const auto& target : targets_)
      world_.expect(target->under_way == 0, "leaked_job", "a target is still asked when the lookup returns");
    judge(found);
  }
  void judge(const Result<Finding>& found) {
    bool any_found = false, any_failed = false, all_lack = true;
    for (const auto& target : targets_) {
      any_found = any_found || target->end == 'v';
      any_failed = any_failed || target->end == 'b' || target->late;
      all_lack = all_lack && (target->asked == 0 || target->end == 'n');
    }
    if (found) {
      told_ = 'v';
      world_.expect(any_found && found->answer.providers.size() == 1, "phantom_item",
                    "nobody found what was found");
      return;
    }
    const ErrorCode code = found.error().code;
    for (const auto& target : targets_)
      world_.expect(code != ErrorCode::timeout || target->end != 'c' || target->late, "lost_item",
                    "a target that was late is not known to be");
    told_ = code == ErrorCode::not_found ? 'n' : code == ErrorCode::timeout ? 't' : 'c';
    world_.expect(!any_found, "lost_item", "what a target found was dropped");
    if (code == ErrorCode::not_found)
      world_.expect(all_lack, "wrong_error", "not found, although somebody did not say so");
    else if (code == ErrorCode::timeout)
      world_.expect(any_failed, "wrong_error", "a timeout, although no target failed");
    else
      world_.expect(code == ErrorCode::cancelled && how_.cancelled, "wrong_error", "another error");
  }

  World& world_;
  Hedging how_;
  Scope caller_;
  Mailbox box_{[] {}};
  Anything judge_;
  Lates lates_;
  index::BreakerTable breakers_{world_.shard, box_, {}};
  index::Lookups lookups_{world_.shard, box_, breakers_, judge_, &lates_};
  std::vector<std::shared_ptr<ModelTarget>> targets_;
  int answers_ = 0;
  char told_ = '.';
};

// ---- flights

enum class Caller { plain, victim, hurried };

struct FlyingShape {
  std::vector<Caller> near, far;
  bool drain = false;  // at any moment
  std::size_t waiters = 8;
};

class SharedFlight : public Model {
 public:
  SharedFlight(World& world, FlyingShape shape)
      : world_(world),
        shape_(std::move(shape)),
        victims_(world.shard, world.scope.call()),
        dispatchers_(world.shard, world.scope.call()),
        flights_({.flights_max = 2, .waiters_max = shape_.waiters, .places = 8}, 7) {
    flights_.attach(world.shard, near_.box,
                    [this](Call call, Question question) { return work(call, question); });
    Scope& scope = shape_.drain ? dispatchers_ : world.scope;
    scope.spawn("dispatcher", flights_.run(scope.call()));
    for (const Caller kind : shape_.near) start(kind, near_);
    for (const Caller kind : shape_.far) start(kind, far_);
    if (victim_) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
    if (!shape_.far.empty()) {
      world.scope.spawn("mail", carry(world.scope.call(), near_));
      world.scope.spawn("mail", carry(world.scope.call(), far_));
    }
    if (shape_.drain) world.scope.spawn("drain", drains());
  }
  ~SharedFlight() override {
    near_.box.drain();
    far_.box.drain();
  }
  bool may_wait_at_end(const TaskInfo& task) const override {
    const std::string_view name = task.name;
    return name == "mail" || (name == "dispatcher" && !shape_.drain);
  }
  void after_step() override {
    world_.expect(running_.get() <= 1, "two_at_once", "two flights of one question are under way");
  }
  void at_end() override {
    for (std::size_t i = 0; i < asked_; ++i)
      world_.expect(fates_[i].answers == 1, "lost_item", "a caller got no answer, or two");
    world_.expect(flights_.flying() == 0, "leaked_job", "a flight is under way for ever");
    world_.expect(flights_.waiting() == 0, "leaked_place", "a place was not given back");
    world_.expect(running_.get() == 0, "leaked_job", "a flight never landed");
    world_.expect(!shape_.drain || dispatchers_.empty(), "lost_shutdown",
                  "the dispatcher outlived the drain");
  }
  std::string state() const override {
    std::string out = fmt::format("{} ", runs_);
    for (std::size_t i = 0; i < asked_; ++i) out += fates_[i].told;
    return out;
  }

 private:
  struct Fate {
    Caller kind = Caller::plain;
    int answers = 0;
    char told = '.';
  };
  struct Post {
    explicit Post(World& world) : bell(world.shard, 1), box([this] { (void)bell.try_send(0); }) {}
    Mpsc<int> bell;
    Mailbox box;
  };

  Task<Result<FindingPtr>> work(Call call, Question) {
    running_.edit() += 1;
    ++runs_;
    co_await yield(call);
    running_.edit() -= 1;
    if (call.stopped()) {
      world_.expect(draining_.get(), "wrong_stop", "a flight was stopped by one of its callers");
      co_return fail(Error(ErrorCode::cancelled, "a model", Side::self, StopReason::draining));
    }
    co_return std::make_shared<const Finding>();
  }
  void start(Caller kind, Post& from) {
    const std::size_t number = asked_++;
    fates_[number].kind = kind;
    victim_ = victim_ || kind == Caller::victim;
    Scope& scope = kind == Caller::victim ? victims_ : world_.scope;
    scope.spawn("caller", call_for(scope.call(), number, from));
  }
  Task<> call_for(Call call, std::size_t number, Post& from) {
    Fate& fate = fates_[number];
    if (fate.kind == Caller::hurried) call = call.within(Duration::millis(1));
    const auto answer = co_await flights_.ask(call, sample_question(), from.box);
    ++fate.answers;
    if (answer) {
      fate.told = 'v';
      world_.expect(runs_ > 0, "phantom_item", "an answer that no flight gave");
      co_return;
    }
    const ErrorCode code = answer.error().code;
    fate.told = code == ErrorCode::timeout     ? 't'
                : code == ErrorCode::cancelled ? 'c'
                : code == ErrorCode::busy      ? 'b'
                                               : 'd';
    const bool fits = (code == ErrorCode::timeout && fate.kind == Caller::hurried) ||
                      (code == ErrorCode::cancelled && (fate.kind == Caller::victim || draining_.get())) ||
                      (code == ErrorCode::draining && draining_.get()) ||
                      (code == ErrorCode::busy && shape_.waiters < asked_);
    world_.expect(fits, "wrong_error", "a caller got an error that is not its own");
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
  Task<> drains() {
    draining_.edit() = true;
    dispatchers_.cancel(StopReason::draining);
    co_return;
  }

  World& world_;
  FlyingShape shape_;
  Scope victims_, dispatchers_;
  Post near_{world_}, far_{world_};
  index::Flights flights_;
  Shared<int> running_{world_, 0};
  Shared<bool> draining_{world_, false};
  std::array<Fate, 4> fates_{};
  std::size_t asked_ = 0;
  int runs_ = 0;
  bool victim_ = false;
};

// ---- probes that race for a half-open breaker

enum class Probe { good, bad, leaves };

class RacingProbes : public Model {
 public:
  static constexpr std::uint32_t probes_max = 2;

  RacingProbes(World& world, std::vector<Probe> probes) : world_(world), probes_(std::move(probes)) {
    world.horizon = Instant{} + Duration::millis(1900);  // one look of the janitor
    for (std::size_t i = 0; i < index::BreakerTable::outcomes_least; ++i)
      table_.try_begin(target, box_)->end(false);
    world.scope.spawn("janitor", table_.run(world.scope.call()));
    world.scope.spawn("opener", opener(world.scope.call()));
  }
  bool may_wait_at_end(const TaskInfo& task) const override {
    return std::string_view(task.name) == "janitor";
  }
  void after_step() override {
    world_.expect(out_.get() + used_.get() <= static_cast<int>(probes_max), "too_many",
                  "more probes than were let out");
  }
  void at_end() override {
    world_.expect(out_.get() == 0, "leaked_job", "a probe is out for ever");
    if (!opened_) return;
    const Breaker::State state = table_.snapshot()->state_of(target);
    world_.expect(bad_ == 0 || state != Breaker::State::half_open, "lost_item",
                  "a failed probe changed nothing");
    world_.expect(used_.get() < static_cast<int>(probes_max) || state != Breaker::State::half_open,
                  "lost_item", "the last verdict changed nothing");
    // Whoever asks next can: else no probe would ever come.
    if (state == Breaker::State::half_open)
      world_.expect(table_.try_begin(target, box_).has_value(), "stuck", "a place was never given back");
  }
  std::string state() const override {
    return fmt::format("{}{} used={} {}", opened_ ? "" : "early ", told_, used_.get(),
                       static_cast<int>(table_.snapshot()->state_of(target)));
  }

 private:
  static constexpr char target[] = "t";

  // Not before the janitor has looked: else there is nothing to race for.
  Task<> opener(Call call) {
    (void)co_await sleep_until(call, Instant{} + Duration::millis(1800));
    opened_ = table_.snapshot()->state_of(target) == Breaker::State::half_open;
    if (!opened_) co_return;
    told_.assign(probes_.size(), '.');
    for (std::size_t i = 0; i < probes_.size(); ++i)
      world_.scope.spawn("probe", probe(world_.scope.call(), i));
  }
  // A shard may be interrupted between reading the table and taking from it.
  Task<> probe(Call call, std::size_t number) {
    const auto table = table_.snapshot();
    co_await yield(call);
    auto one = table_.try_begin(*table, target, box_);
    const Breaker::State now = table_.snapshot()->state_of(target);
    world_.expect(!one || now != Breaker::State::open, "through_open",
                  "a request began through an open breaker");
    if (!one || table->state_of(target) != Breaker::State::half_open) {
      told_[number] = one ? 'f' : 'x';
      co_return;
    }
    out_.edit() += 1;
    co_await yield(call);
    out_.edit() -= 1;
    const Probe how = probes_[number];
    told_[number] = how == Probe::good ? 'g' : how == Probe::bad ? 'b' : 'l';
    if (how == Probe::leaves) co_return;
    used_.edit() += 1;
    bad_ += how == Probe::bad ? 1 : 0;
    one->end(how == Probe::good);
  }

  World& world_;
  std::vector<Probe> probes_;
  Mailbox box_{[] {}};
  index::BreakerTable table_{world_.shard, box_, {.cooldown = Duration::millis(1), .probes = probes_max}};
  Shared<int> out_{world_, 0}, used_{world_, 0};
  int bad_ = 0;
  bool opened_ = false;
  std::string told_;
};

}  // namespace

void add_index_models(std::vector<ModelSpec>& to) {
  using enum Does;
  const auto add_lookup = [&](const char* name, Hedging how) {
    to.push_back({name, [=](World& world) { return std::make_unique<HedgedLookup>(world, how); }});
  };
  add_lookup("lookup_hedge", {.targets = {silent, finds}});
  add_lookup("lookup_losers", {.targets = {finds, finds, silent}, .alpha = 2});
  add_lookup("lookup_lacking", {.targets = {lacks, breaks, lacks}, .alpha = 2});
  add_lookup("lookup_retry", {.targets = {breaks, lacks}, .retries = 1});
  add_lookup("lookup_cancel", {.targets = {silent, finds}, .cancelled = true});

  const auto add_flight = [&](const char* name, FlyingShape shape) {
    to.push_back({name, [=](World& world) { return std::make_unique<SharedFlight>(world, shape); }});
  };
  add_flight("flight_of_all_cancel", {.near = {Caller::victim, Caller::plain}, .far = {}});
  add_flight("flight_of_all_deadline", {.near = {Caller::hurried, Caller::plain}, .far = {}});
  add_flight("flight_of_all_far", {.near = {}, .far = {Caller::victim, Caller::plain}});
  add_flight("flight_of_all_drain", {.near = {Caller::plain, Caller::victim}, .far = {}, .drain = true});
  add_flight("flight_of_all_full",
             {.near = {Caller::victim, Caller::plain, Caller::plain}, .far = {}, .waiters = 2});

  const auto add_probes = [&](const char* name, std::vector<Probe> probes) {
    to.push_back({name, [=](World& world) { return std::make_unique<RacingProbes>(world, probes); }});
  };
  add_probes("probe_good", {Probe::good, Probe::good, Probe::good});
  add_probes("probe_bad", {Probe::bad, Probe::good, Probe::good});
  add_probes("probe_leaves", {Probe::leaves, Probe::good, Probe::bad});
}

}  // namespace cairn::model
