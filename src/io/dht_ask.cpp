#include "io/dht_ask.h"

#include "runtime/cancel.h"
#include "runtime/wait.h"

namespace cairn::io {
namespace {

class Leaving {
 public:
  explicit Leaving(DhtAsk& ask) noexcept : ask_(ask) {}
  ~Leaving() { ask_.leave(); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  DhtAsk& ask_;
};

}  // namespace

Error error_of(DhtEnd end) noexcept {
  switch (end) {
    case DhtEnd::no_node:
      return {ErrorCode::not_ready, "no node of the DHT is known", Side::upstream};
    case DhtEnd::closed:
      return {ErrorCode::closed, "the DHT is closed"};
    default:
      return {ErrorCode::upstream, "the nodes of the DHT did not answer", Side::upstream};
  }
}

DhtAsk::DhtAsk(std::shared_ptr<DhtLoad> load, PermitHold place, Mailbox& home)
    : load_(std::move(load)), place_(std::move(place)), home_(home) {
  deliver = deliver_news;
}

DhtAsk::~DhtAsk() { leave(); }

Result<std::shared_ptr<DhtAsk>> DhtAsk::make(std::shared_ptr<DhtLoad> load, Mailbox& home) {
  if (load->closed.load(std::memory_order_relaxed)) return fail(error_of(DhtEnd::closed));
  auto place = load->under_way.try_hold();
  if (!place) return fail(ErrorCode::busy, "too many ask the DHT");
  return std::shared_ptr<DhtAsk>(new DhtAsk(std::move(load), std::move(*place), home));
}

DhtAsk::News DhtAsk::collect() {
  News news = state_.with(
      [](State& state) { return News{std::exchange(state.values, {}), state.end, state.dropped}; });
  for (std::size_t i = 0; i < news.values.size(); ++i) load_->held.give();
  return news;
}

void DhtAsk::leave() noexcept {
  const std::vector<DhtValue> unread = state_.with([](State& state) {
    state.left = true;
    return std::exchange(state.values, {});
  });
  for (std::size_t i = 0; i < unread.size(); ++i) load_->held.give();
}

bool DhtAsk::give(std::uint64_t id, ByteView bytes) {
  return state_.with([&](State& state) {
    if (state.left || state.end != DhtEnd::none) return false;
    if (state.given == dht_values_most || bytes.empty() || bytes.size() > dht_value_max ||
        !load_->held.try_take()) {
      drop_one(state);
      return true;
    }
    ++state.given;
    state.values.push_back({id, std::string(as_text(bytes))});
    post(state);
    return true;
  });
}

bool DhtAsk::drop() {
  return state_.with([&](State& state) {
    if (state.left || state.end != DhtEnd::none) return false;
    drop_one(state);
    return true;
  });
}

void DhtAsk::drop_one(State& state) noexcept {
  ++state.dropped;
  load_->dropped.fetch_add(1, std::memory_order_relaxed);
}

void DhtAsk::end(DhtEnd how) noexcept {
  if (how != DhtEnd::complete && load_->closed.load(std::memory_order_relaxed)) how = DhtEnd::closed;
  state_.with([&](State& state) {
    if (state.left || state.end != DhtEnd::none) return;
    state.end = how;
    post(state);
  });
}

bool DhtAsk::wanted() const noexcept {
  return state_.with([](const State& state) { return !state.left && state.end == DhtEnd::none; });
}

void DhtAsk::post(State& state) noexcept {
  if (state.posted != nullptr) return;
  state.posted = shared_from_this();
  home_.post(*this);
}

void DhtAsk::deliver_news(MailItem& item) noexcept {
  auto& ask = static_cast<DhtAsk&>(item);
  const std::shared_ptr<DhtAsk> self =
      ask.state_.with([](State& state) { return std::exchange(state.posted, nullptr); });
  while (!ask.waiting_.empty()) wake(ask.waiting_.front());
}

Result<> may_begin(const Call& call, const char* what) noexcept {
  if (call.stopped()) return fail({ErrorCode::cancelled, what, Side::self, call.cancel().reason()});
  if (call.expired()) return fail({ErrorCode::timeout, what, Side::self, StopReason::deadline});
  return {};
}

Task<Result<DhtOutcome>> take_values(Call call, std::shared_ptr<DhtAsk> ask, DhtSink take) {
  const Leaving leaving(*ask);
  DhtOutcome outcome;
  for (;;) {
    const DhtAsk::News news = ask->collect();
    outcome.dropped = news.dropped;
    for (const DhtValue& value : news.values) {
      ++outcome.given;
      outcome.satisfied = take(value);
      if (outcome.satisfied) co_return outcome;
      if (outcome.given % dht_values_per_turn != 0) continue;
      co_await yield(call);
      CO_TRY_VOID(may_begin(call, "dht get"));
    }
    outcome.complete = news.end == DhtEnd::complete;
    if (outcome.complete) co_return outcome;
    if (news.end != DhtEnd::none) co_return fail(error_of(news.end));
    CO_TRY_VOID(co_await ListWait(call, ask->waiting(), "dht get"));
  }
}

Task<Result<>> wait_for_end(Call call, std::shared_ptr<DhtAsk> ask) {
  const Leaving leaving(*ask);
  for (;;) {
    const DhtAsk::News news = ask->collect();
    if (news.end == DhtEnd::complete) co_return Result<>{};
    if (news.end != DhtEnd::none) co_return fail(error_of(news.end));
    CO_TRY_VOID(co_await ListWait(call, ask->waiting(), "dht put"));
  }
}

}  // namespace cairn::io
