#include "serve/lifecycle.h"

#include <algorithm>

#include "runtime/wait.h"

namespace cairn::serve {

// One shard's part of the step under way. Between the order and the report it belongs to that shard.
struct Lifecycle::Leg {
  struct Mail : MailItem {
    Leg* leg = nullptr;
  };

  Leg(Lifecycle& whole, unsigned index) : owner(whole), shard(index) {
    bind<&Leg::obey>(the_order);
    bind<&Leg::cancel_starts>(the_cancel);
    bind<&Leg::abort_all>(the_abort);
    bind<&Leg::arrive>(the_report);
  }
  template <void (Leg::*act)()>
  void bind(Mail& mail) {
    mail.leg = this;
    mail.deliver = [](MailItem& item) { (static_cast<Mail&>(item).leg->*act)(); };
  }

  Mailbox& there() const noexcept { return owner.nodes_.front()->mailbox(shard); }
  Mailbox& home() const noexcept { return owner.nodes_.front()->mailbox(0); }

  // --- on this leg's shard
  void obey() {
    awaited = step == Step::drain ? owner.nodes_.size() : 1;
    results.assign(awaited, {});
    const auto ended = [this](std::size_t number) {
      return [this, number](DrainResult outcome) {
        results[number] = std::move(outcome);
        if (--awaited == 0) home().post(the_report);
      };
    };
    switch (step) {
      case Step::start:
        node->start_service(shard, [this](Result<> outcome) {
          started = outcome;
          home().post(the_report);
        });
        break;
      case Step::drain:
        for (std::size_t i = 0; i < owner.nodes_.size(); ++i)
          owner.nodes_[i]->drain(shard, deadline, ended(i));
        break;
      case Step::stop:
        node->stop_service(shard, deadline, ended(0));
        break;
      case Step::leave:
        node->leave(shard, aborted, ended(0));
        break;
    }
  }
  void cancel_starts() {
    for (Node* each : owner.nodes_) each->cancel_start(shard);
  }
  void abort_all() {
    for (Node* each : owner.nodes_) each->abort(shard);
  }
  // --- on shard 0
  void arrive() { owner.reported(); }

  Lifecycle& owner;
  unsigned shard;
  Mail the_order, the_cancel, the_abort, the_report;
  Step step = Step::start;
  Node* node = nullptr;
  Instant deadline{};
  bool aborted = false;  // something was aborted so far
  Result<> started;
  std::vector<DrainResult> results;  // after a drain: one for each service
  std::size_t awaited = 0;
};

Lifecycle::Lifecycle(std::vector<Node*> nodes, LifecycleEvents events)
    : nodes_(std::move(nodes)), events_(std::move(events)) {
  CHECK(!nodes_.empty());
  for (unsigned i = 0; i < nodes_.front()->shards(); ++i) legs_.push_back(std::make_unique<Leg>(*this, i));
  for (Node* node : nodes_) CHECK(node->shards() == shards());
}

Lifecycle::~Lifecycle() { CHECK(waiters_.empty()); }

Duration Lifecycle::drain_timeout() const noexcept {
  Duration longest{};
  for (const Node* node : nodes_) longest = std::max(longest, node->settings().drain_timeout);
  return longest;
}

void Lifecycle::reported() {
  --awaited_;
  while (!waiters_.empty()) wake(waiters_.front());
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): nodes outlive this
Task<Result<>> Lifecycle::order(Call call, Step step, Node* node, unsigned first, unsigned last) {
  awaited_ = last - first;
  for (unsigned i = first; i < last; ++i) {
    Leg& leg = *legs_[i];
    leg.step = step;
    leg.node = node;
    leg.deadline = step == Step::stop ? deadline_ + stop_grace : deadline_;
    leg.aborted = outcome_.aborted > 0;
    leg.there().post(leg.the_order);
  }
  while (awaited_ > 0) CO_TRY_VOID(co_await ListWait(call, waiters_, "the shards"));
  co_return Result<>{};
}

// Returns only errors of the call; the failure of a service to start is in outcome_.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): nodes outlive this
Task<Result<>> Lifecycle::start_one(Call call, Node& node) {
  const auto check = [&](unsigned shard) {
    const Result<>& started = legs_[shard]->started;
    if (started || ending_ || outcome_.failed != nullptr) return;
    outcome_.failed = &node;
    outcome_.failure = started.error();
  };
  CO_TRY_VOID(co_await order(call, Step::start, &node, 0, 1));
  check(0);
  if (ending_ || outcome_.failed != nullptr) co_return Result<>{};
  CO_TRY_VOID(co_await order(call, Step::start, &node, 1, shards()));
  for (unsigned i = 1; i < shards(); ++i) check(i);
  if (!ending_ && outcome_.failed == nullptr) node.serve();
  co_return Result<>{};
}

Task<Result<>> Lifecycle::start_all(Call call) {
  for (Node* node : nodes_) {
    if (ending_) break;
    CO_TRY_VOID(co_await start_one(call, *node));
    if (outcome_.failed != nullptr) end(drain_timeout());
  }
  if (!ending_ && events_.serving) events_.serving();
  co_return Result<>{};
}

void Lifecycle::gather(unsigned first, unsigned last) {
  for (unsigned i = first; i < last; ++i) {
    for (const DrainResult& result : legs_[i]->results) {
      outcome_.aborted += result.aborted;
      for (const std::string& task : result.still_alive) outcome_.still_alive.push_back(task);
    }
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): nodes outlive this
Task<Result<>> Lifecycle::leave_one(Call call, Node& node) {
  CO_TRY_VOID(co_await order(call, Step::leave, &node, 0, shards()));
  gather(0, shards());
  co_return Result<>{};
}

Task<Result<>> Lifecycle::drain_all(Call call) {
  CO_TRY_VOID(co_await order(call, Step::drain, nullptr, 0, shards()));
  gather(0, shards());
  if (events_.drained)
    for (unsigned i = 0; i < shards(); ++i) events_.drained(i, legs_[i]->results);
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): nodes outlive this
Task<Result<>> Lifecycle::stop_one(Call call, Node& node) {
  // A task that is still alive would find its service destroyed: the process leaves at once instead.
  if (!outcome_.still_alive.empty()) co_return Result<>{};
  CO_TRY_VOID(co_await order(call, Step::stop, &node, 1, shards()));
  gather(1, shards());
  CO_TRY_VOID(co_await order(call, Step::stop, &node, 0, 1));
  gather(0, 1);
  co_return Result<>{};
}

Task<Result<LifecycleOutcome>> Lifecycle::run(Call call) {
  CO_TRY_VOID(co_await start_all(call));
  while (!ending_) CO_TRY_VOID(co_await ListWait(call, waiters_, "the end"));
  CO_TRY_VOID(co_await drain_all(call));
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
    CO_TRY_VOID(co_await stop_one(call, **node));
  for (Node* node : nodes_) CO_TRY_VOID(co_await leave_one(call, *node));
  co_return outcome_;
}

void Lifecycle::end(Duration within) {
  if (ending_) return;
  ending_ = true;
  deadline_ = current_shard()->now() + within;
  if (events_.ending) events_.ending(within);
  for (Node* node : nodes_) node->health().set_draining();
  for (auto& leg : legs_) leg->there().post(leg->the_cancel);
  while (!waiters_.empty()) wake(waiters_.front());
}

void Lifecycle::abort() {
  if (std::exchange(aborting_, true)) return;
  if (!ending_) end({});
  deadline_ = std::min(deadline_, current_shard()->now());
  for (auto& leg : legs_) leg->there().post(leg->the_abort);
}

}  // namespace cairn::serve
