#include "services/index/breakers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cairn::index {
namespace {

using State = Breaker::State;

// In one step of the janitor.
constexpr std::size_t outcomes_at_once = 64;
// A target that was not heard of for so long is forgotten, when nothing is held against it.
constexpr Duration forget_after = Duration::seconds(600);

}  // namespace

// The ratio alone opens it, and every cooldown is the same. A Breaker opens at its ratio; here the ratio must
// be above the threshold.
BreakerPolicy BreakerTable::policy_of(const BreakerRules& rules) noexcept {
  return {.window = rules.window,
          .error_ratio = std::nextafter(rules.trip_threshold, std::numeric_limits<double>::infinity()),
          .min_requests = outcomes_least,
          .consecutive = std::numeric_limits<std::uint32_t>::max(),
          .cooldown = rules.cooldown,
          .cooldown_max = rules.cooldown,
          .half_open_probes = rules.probes};
}

BreakerTable::BreakerTable(Shard& home, Mailbox& mailbox, const BreakerRules& rules)
    : shard_(home),
      probes_(rules.probes),
      policy_(policy_of(rules)),
      outcomes_(home, mailbox, {"the queue of outcomes is full", "the breaker janitor has ended"}) {}

std::optional<BreakerTable::Try> BreakerTable::try_begin(const Snapshot& table, const std::string& target,
                                                         Mailbox& from) {
  const auto found = table.entries.find(target);
  auto request = std::make_unique<Try::Request>(this, &from, target, 0u, nullptr);
  if (found != table.entries.end()) {
    const Entry& entry = found->second;
    if (entry.state == State::open) return std::nullopt;
    request->epoch = entry.epoch;
    if (entry.state == State::half_open) {
      if (!entry.tickets->try_take()) return std::nullopt;
      request->ticket = entry.tickets;
    }
  }
  return Try(std::move(request));
}

void BreakerTable::Try::end(bool good) {
  if (!of_) return;
  auto outcome = std::make_unique<Outcome>(of_->target, of_->epoch, good);
  if (of_->table->report(std::move(outcome), *of_->from)) of_->ticket.reset();  // used up
  drop();
}

void BreakerTable::Try::drop() noexcept {
  if (!of_) return;
  if (of_->ticket) of_->ticket->give_back();
  of_.reset();
}

Result<> BreakerTable::report(std::unique_ptr<Outcome> outcome, Mailbox& from) {
  auto left = outcomes_.leave(std::move(outcome), from, &places_);
  if (!left) lost_.fetch_add(1, std::memory_order_relaxed);
  return left;
}

Task<> BreakerTable::run(Call call) {
  Instant due = shard_.now() + look;
  while (!call.stopped()) {
    (void)co_await outcomes_.arrived(call.by(due));
    for (std::size_t i = 0; i < outcomes_at_once && take_one(); ++i) {
    }
    if (shard_.now() >= due) {
      look_at_all();
      due = shard_.now() + look;
    }
    if (changed_) publish();
    co_await yield(call);
  }
  outcomes_.close();
}

// The outcome is answered first: if memory is short for the rest, its place is free all the same.
bool BreakerTable::take_one() {
  Outcome* outcome = outcomes_.next();
  if (outcome == nullptr) return false;
  outcomes_.take(*outcome);
  const std::string target = std::move(outcome->target);
  const std::uint64_t epoch = outcome->epoch;
  const bool good = outcome->good;
  outcome->result = true;
  outcomes_.answer(*outcome);
  apply(target, epoch, good);
  return true;
}

void BreakerTable::apply(const std::string& target, std::uint64_t epoch, bool good) {
  auto found = watched_.find(target);
  if (found == watched_.end()) {
    if (watched_.size() >= targets_max) return;
    found = watched_.emplace(target, std::make_unique<Watched>(policy_)).first;
  }
  Watched& watched = *found->second;
  watched.heard = shard_.now();
  // It began before the last change of state, and says nothing about this one.
  if (epoch != watched.entry.epoch) return;
  if (auto one = watched.breaker.try_begin(shard_.now()))
    one->end(good ? Breaker::Verdict::good : Breaker::Verdict::failed, shard_.now());
  follow(watched);
}

void BreakerTable::look_at_all() {
  const Instant now = shard_.now();
  for (auto at = watched_.begin(); at != watched_.end();) {
    Watched& watched = *at->second;
    // An open breaker becomes half open when a request asks after its cooldown: this is the request, and it
    // is given up at once.
    if (watched.breaker.state() == State::open) (void)watched.breaker.try_begin(now);
    follow(watched);
    const bool forgotten = watched.entry.state != State::open && now - watched.heard > forget_after;
    changed_ = changed_ || (forgotten && watched.entry.epoch != 0);
    at = forgotten ? watched_.erase(at) : std::next(at);
  }
}

// Takes over a change of state. The old tickets are closed here, before the table without them is published:
// a shard that still reads the old table finds none.
void BreakerTable::follow(Watched& watched) {
  const State state = watched.breaker.state();
  if (state == watched.entry.state) return;
  if (watched.entry.tickets) watched.entry.tickets->close();
  watched.entry = {state, ++epochs_, nullptr};
  watched.issued = probes_;
  if (state == State::half_open) watched.entry.tickets = std::make_shared<ProbeTickets>(probes_);
  if (state == State::open) ++opened_;
  changed_ = true;
}

void BreakerTable::publish() {
  auto next = std::make_shared<Snapshot>();
  for (const auto& [name, watched] : watched_)
    if (watched->entry.epoch != 0) next->entries.emplace(name, watched->entry);
  next->opened = opened_;
  SnapshotPtr table = std::move(next);
  newest_.with([&](SnapshotPtr& newest) { newest.swap(table); });
  changed_ = false;
}

void BreakerTable::set_rules(const BreakerRules& rules) {
  probes_ = rules.probes;
  policy_ = policy_of(rules);
  for (auto& [name, watched] : watched_) {
    watched->breaker.set_policy(policy_);
    follow(*watched);
    // More probes are wanted than the ones that were let out.
    for (; watched->entry.tickets && watched->issued < probes_; ++watched->issued)
      watched->entry.tickets->give_back();
  }
  if (changed_) publish();
}

}  // namespace cairn::index
