// The registry's commit pipeline: requests → committer → committed, with a shutdown at any moment. The log is
// a step that takes its time; what a crash does to it is the subject of registry_head.pml.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/models.h"
#include "runtime/broadcast.h"
#include "runtime/drain.h"
#include "runtime/mpsc.h"
#include "runtime/oneshot.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

// What is wrong on purpose with a committer.
enum class Flaw {
  none,
  early_answer,    // it answers before the sync
  stale_compare,   // two committers, which compare HEAD before the sync and write it after, uncompared
  waits_for_bus,   // it waits until the subscriber has read what it sent
  drops_queued,    // what is queued at its stop gets no answer
  forgets_winner,  // it does not look whether the proposal is committed already
};

enum class End {
  at_any_moment,   // admitted requests are waited for
  with_deadline,   // as long as there is time, which may be none
  after_requests,  // by itself, when every request has its answer
};

enum class Twist {
  none,
  repeated,  // all producers ask for the commit of one proposal
  hurried,   // the first producer may give up its wait; then it asks again for the same
  stalled,   // the subscriber reads nothing until every request has its answer
};

struct Pipeline {
  int producers;
  std::size_t queue;
  std::size_t bus;
  int rounds;      // proposals of each producer, one after the other
  bool publisher;  // beside the subscriber
  End end;
  Twist twist = Twist::none;
  Flaw flaw = Flaw::none;
};

class CommitPipeline : public Model {
 public:
  CommitPipeline(World& world, Pipeline shape)
      : world_(world),
        shape_(shape),
        tasks_(world.shard, world.scope.call()),
        drain_(world.shard),
        requests_(world.shard, shape.queue),
        committed_(world.shard, shape.bus),
        for_subscriber_(committed_),
        for_publisher_(committed_) {
    for (int i = 0; i < shape.producers; ++i) world.scope.spawn("producer", produce(world.scope.call(), i));
    tasks_.spawn("committer", commit_all(tasks_.call()));
    if (shape.flaw == Flaw::stale_compare) tasks_.spawn("committer", commit_all(tasks_.call()));
    world.scope.spawn("subscriber", subscribe(world.scope.call()));
    if (shape.publisher) world.scope.spawn("publisher", publish(world.scope.call()));
    world.scope.spawn("shutdown", shut_down(world.scope.call()));
  }

  void after_step() override {
    world_.expect(requests_.depth() <= requests_.capacity(), "bound", "queue over its capacity");
  }
  void at_end() override {
    world_.expect(stopped_ && tasks_.empty(), "lost_shutdown", "the committer outlived the shutdown");
    world_.expect(subscriber_ended_ && publisher_ended_ == shape_.publisher, "lost_shutdown",
                  "a reader of the bus never heard of its end");
    world_.expect(answers_ + given_up_ == accepted_, "lost_answer", "an accepted request got no answer");
    world_.expect(committed_.sent() == log_.size(), "lost_item", "a commit was not broadcast");
    judge_log();
  }
  std::string state() const override {
    std::string text;
    for (const Head& commit : log_) text += fmt::format("{}@{} ", commit.hash, commit.version);
    return fmt::format("{}heard={} published={} done={} mismatch={} draining={} busy={} refused={} late={}",
                       text, heard_, published_, done_, mismatched_, drained_, busy_, refused_, given_up_);
  }

 private:
  struct Head {
    int version = 0;
    int hash = 0;  // of the proposal that won it
    bool operator==(const Head&) const = default;
  };
  struct Proposal {
    int hash;
    Head on;
  };
  using Answer = Result<Head>;
  struct Request {
    Proposal proposal;
    Oneshot<Answer>::Sender reply;
  };

  // ---- who asks

  Task<> produce(Call call, int who) {
    for (int round = 0; round < shape_.rounds; ++round) {
      auto admitted = drain_.try_enter();
      if (!admitted) {
        ++refused_;
        break;
      }
      const Proposal proposal = shape_.twist == Twist::repeated
                                    ? Proposal{1, {}}
                                    : Proposal{1 + who * shape_.rounds + round, head_.get()};
      co_await yield(call);  // its approvals come in
      const bool settled = co_await ask(
          shape_.twist == Twist::hurried && who == 0 ? call.within(Duration::seconds(1)) : call, proposal);
      if (!settled) (void)co_await ask(call, proposal);
    }
    if (++ended_.edit() == shape_.producers) all_answered_.close();
  }

  // False when the caller gave up: its request may be committed or not.
  Task<bool> ask(Call call, Proposal proposal) {
    Oneshot<Answer> oneshot(world_.shard);
    {
      Request request{proposal, oneshot.sender()};
      auto sent = requests_.try_send(std::move(request));
      if (!sent) {
        ++(sent.error().code == ErrorCode::busy ? busy_ : refused_);
        co_return true;
      }
    }
    ++accepted_;
    const Result<Answer> answer = co_await oneshot.recv(call);
    if (!answer && answer.error().code == ErrorCode::timeout && shape_.twist == Twist::hurried) {
      ++given_up_;
      co_return false;
    }
    if (!answer)
      world_.fail("lost_answer", "an accepted request was dropped");
    else
      judge_answer(*answer, proposal);
    co_return true;
  }

  void judge_answer(const Answer& answer, const Proposal& proposal) {
    ++answers_;
    if (answer) {
      ++done_;
      world_.expect(*answer == Head{proposal.on.version + 1, proposal.hash}, "wrong_answer",
                    "an answer about another proposal");
      world_.expect(durable_.get() >= answer->version, "early_answer", "done was told before the sync");
    } else if (answer.error().code == ErrorCode::chain_mismatch) {
      ++mismatched_;
      world_.expect(head_.get() != Head{proposal.on.version + 1, proposal.hash}, "wrong_answer",
                    "mismatch was told to the winner");
    } else {
      ++drained_;
      world_.expect(answer.error().code == ErrorCode::draining, "wrong_error", "an answer of another kind");
      world_.expect(drain_.state() != DrainState::running, "wrong_error", "draining was told without a stop");
    }
  }

  // ---- the one who owns HEAD

  Task<> commit_all(Call call) {
    while (!call.stopped()) {
      auto request = co_await requests_.recv(call);
      if (!request) break;
      co_await commit(call, std::move(*request));
    }
    requests_.close();
    while (auto request = requests_.try_recv()) {
      if (shape_.flaw == Flaw::drops_queued) continue;
      answer(*request, fail(ErrorCode::draining, "commit"));
    }
    committed_.close();
  }

  Task<> commit(Call call, Request request) {
    const Head expected = request.proposal.on;
    const Head next{expected.version + 1, request.proposal.hash};
    if (shape_.flaw != Flaw::forgets_winner && was_committed(next)) co_return answer(request, next);
    if (head_.get() != expected) co_return answer(request, fail(ErrorCode::chain_mismatch, "commit"));
    if (shape_.flaw == Flaw::early_answer) answer(request, next);
    // Shielded: a commit is not left half way because of a shutdown; only an abort ends it.
    if (!co_await sleep_for(call.shield(), Duration::millis(1)))
      co_return answer(request, fail(ErrorCode::draining, "commit"));
    durable_.edit() = std::max(durable_.get(), next.version);
    // Never so while one task alone owns HEAD; with a second one it is what keeps versions apart.
    if (shape_.flaw != Flaw::stale_compare && head_.get() != expected)
      co_return answer(request, fail(ErrorCode::chain_mismatch, "commit"));
    head_.edit() = next;
    log_.push_back(next);
    judge_log();
    if (shape_.flaw != Flaw::early_answer) answer(request, next);
    world_.expect(committed_.send(next).has_value(), "wrong_error", "the bus was closed under the committer");
    if (shape_.flaw == Flaw::waits_for_bus) (void)co_await read_.recv(call);
  }

  bool was_committed(Head commit) const {
    (void)head_.get();
    return std::find(log_.begin(), log_.end(), commit) != log_.end();
  }
  void answer(Request& request, Answer value) {
    const bool sent = request.reply.try_send(std::move(value)).has_value();
    world_.expect(sent || shape_.twist == Twist::hurried, "double_answer", "a request was answered twice");
  }

  void judge_log() {
    for (std::size_t i = 0; i < log_.size(); ++i) {
      world_.expect(log_[i].version == static_cast<int>(i) + 1, "double_version",
                    "two commits of one version, or a gap");
      for (std::size_t j = 0; j < i; ++j)
        world_.expect(log_[i].hash != log_[j].hash, "double_commit", "one proposal was committed twice");
    }
  }

  // ---- who listens

  // A slow one; what it received and what it was told it missed is all that was sent.
  Task<> subscribe(Call call) {
    if (shape_.twist == Twist::stalled) (void)co_await all_answered_.recv(call);
    int newest = 0;
    std::uint64_t received = 0, missed = 0;
    for (;;) {
      auto item = co_await for_subscriber_.recv(call);
      if (item) {
        world_.expect(item->version > newest, "order", "the subscriber saw versions fall");
        newest = item->version;
        ++received;
        heard_ += static_cast<char>('0' + newest);
        if (shape_.flaw == Flaw::waits_for_bus) (void)read_.try_send(0);
      } else if (item.error().code == ErrorCode::lagged) {
        missed += for_subscriber_.missed();
        heard_ += 'L';
      } else {
        world_.expect(item.error().code == ErrorCode::closed, "wrong_error",
                      "the end was not told as closed");
        break;
      }
      if (shape_.twist != Twist::stalled) co_await yield(call);
    }
    world_.expect(received + missed == committed_.sent(), "lost_item",
                  "received and missed are not what was sent");
    subscriber_ended_ = true;
  }

  // After a lag it reads HEAD, so that it ends on the newest version whatever it missed.
  Task<> publish(Call call) {
    for (;;) {
      auto item = co_await for_publisher_.recv(call);
      if (!item && item.error().code != ErrorCode::lagged) break;
      const int version = item ? item->version : head_.get().version;
      world_.expect(version >= published_, "order", "the publisher saw versions fall");
      published_ = version;
    }
    world_.expect(published_ == head_.get().version, "stale",
                  "the publisher did not end on the newest version");
    publisher_ended_ = true;
  }

  Task<> shut_down(Call call) {
    if (shape_.end == End::after_requests) (void)co_await all_answered_.recv(call);
    drain_.begin(shape_.end == End::with_deadline ? world_.shard.now() + Duration::seconds(3)
                                                  : Instant::never());
    const DrainResult result = co_await drain_.finish(call, tasks_);
    world_.expect(result.drained() || shape_.end == End::with_deadline, "early_abort",
                  "work was aborted that had time");
    stopped_ = true;
  }

  World& world_;
  Pipeline shape_;
  Scope tasks_;
  Drain drain_;
  Mpsc<Request> requests_;
  Broadcast<Head> committed_;
  Broadcast<Head>::Receiver for_subscriber_, for_publisher_;
  Mpsc<int> all_answered_{world_.shard, 1}, read_{world_.shard, 1};
  Shared<Head> head_{world_, {}};
  Shared<int> durable_{world_, 0}, ended_{world_, 0};
  std::vector<Head> log_;  // changes with head_ only
  std::string heard_;
  int published_ = 0;
  int accepted_ = 0, answers_ = 0, given_up_ = 0, done_ = 0, mismatched_ = 0, drained_ = 0, busy_ = 0,
      refused_ = 0;
  bool stopped_ = false, subscriber_ended_ = false, publisher_ended_ = false;
};

}  // namespace

void add_registry_models(std::vector<ModelSpec>& to) {
  const auto add = [&to](const char* name, Pipeline shape) {
    to.push_back(spec<CommitPipeline>(name, shape));
  };
  add("registry_one_shutdown", {1, 1, 1, 2, false, End::at_any_moment});
  add("registry_race_shutdown", {2, 1, 1, 1, true, End::at_any_moment});
  add("registry_race_deadline", {2, 2, 1, 1, false, End::with_deadline});
  add("registry_commit_repeated", {2, 2, 1, 1, true, End::at_any_moment, Twist::repeated});
  add("registry_commit_retried", {2, 2, 1, 1, false, End::after_requests, Twist::hurried});
  add("registry_lag", {2, 2, 1, 2, false, End::after_requests, Twist::stalled});
}

void add_wrong_registry_models(std::vector<ModelSpec>& to) {
  const auto add = [&to](const char* name, Pipeline shape, const char* expected) {
    to.push_back(spec<CommitPipeline>(name, shape));
    to.back().expected = expected;
  };
  add("wrong_registry_early_answer", {2, 2, 1, 1, false, End::at_any_moment, Twist::none, Flaw::early_answer},
      "oracle early_answer");
  add("wrong_registry_stale_compare",
      {2, 2, 1, 1, false, End::at_any_moment, Twist::none, Flaw::stale_compare}, "oracle double_version");
  add("wrong_registry_drops_queued", {2, 2, 1, 1, false, End::with_deadline, Twist::none, Flaw::drops_queued},
      "oracle lost_answer");
  add("wrong_registry_forgets_winner",
      {2, 2, 1, 1, false, End::at_any_moment, Twist::repeated, Flaw::forgets_winner}, "oracle wrong_answer");
  add("wrong_registry_waits_for_bus",
      {2, 2, 1, 2, false, End::after_requests, Twist::stalled, Flaw::waits_for_bus}, "oracle deadlock");
}

}  // namespace cairn::model
