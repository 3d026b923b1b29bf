#include "store/change_feed.h"

#include <algorithm>

namespace cairn::store {

ChangeFeed::ChangeFeed(std::size_t capacity) : capacity_(capacity) {
  CHECK(capacity > 0);
  state_.with([capacity](State& state) { state.ring = std::make_unique<Change[]>(capacity); });
  mail_.feed = this;
  mail_.deliver = [](MailItem& item) { static_cast<Mail&>(item).feed->delivered(); };
}

void ChangeFeed::tell(std::span<const Address> addresses, Instant now) noexcept {
  if (addresses.empty()) return;
  state_.with([&](State& state) {
    const std::size_t taken = std::min(addresses.size(), capacity_ - state.size);
    for (std::size_t i = 0; i < taken; ++i)
      state.ring[(state.first + state.size++) % capacity_] = {addresses[i], now};
    if (taken < addresses.size()) {  // CF-1
      state.dropped += addresses.size() - taken;
      if (!state.all) state.all = now;
    }
    wake_reader(state);
  });
}

void ChangeFeed::tell_all(Instant now) noexcept {
  state_.with([&](State& state) {
    if (!state.all) state.all = now;
    wake_reader(state);
  });
}

// One piece of mail is enough: the reader looks only after it was delivered.
void ChangeFeed::wake_reader(State& state) noexcept {
  if (!state.waits || state.posted) return;
  state.waits = false;
  state.posted = true;
  state.reader->post(mail_);
}

void ChangeFeed::delivered() noexcept {
  state_.with([](State& state) { state.posted = false; });
  while (!waiting_.empty()) cairn::wake(waiting_.front());
}

ChangeFeed::Depth ChangeFeed::depth() const noexcept {
  return state_.with([](const State& state) {
    Depth depth{state.size, state.all, state.all.has_value(), state.dropped};
    if (state.size > 0) {
      const Instant first = state.ring[state.first].told;
      depth.oldest = depth.oldest ? std::min(*depth.oldest, first) : first;
    }
    return depth;
  });
}

void ChangeFeed::listen(Mailbox& mailbox) noexcept {
  state_.with([&](State& state) { state.reader = &mailbox; });
}

ChangeFeed::Taken ChangeFeed::take(std::size_t most) {
  Taken taken;
  taken.changed.reserve(std::min(most, capacity_));
  state_.with([&](State& state) {
    taken.all = std::exchange(state.all, std::nullopt);
    if (state.size > 0) taken.oldest = state.ring[state.first].told;
    for (; state.size > 0 && taken.changed.size() < most; --state.size) {
      taken.changed.push_back(state.ring[state.first].address);
      state.first = (state.first + 1) % capacity_;
    }
  });
  return taken;
}

Task<Result<>> ChangeFeed::wait(Call call) {
  // Mail from before may come first, and nothing with it.
  for (;;) {
    const bool empty = state_.with([](State& state) {
      CHECK(state.reader != nullptr);
      state.waits = state.is_empty();
      return state.waits;
    });
    if (!empty) co_return Result<>{};
    CO_TRY_VOID(co_await ListWait(call, waiting_, "changes"));
  }
}

}  // namespace cairn::store
