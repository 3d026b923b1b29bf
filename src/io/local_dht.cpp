#include "io/local_dht.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "io/dht_ask.h"
#include "io/machine.h"
#include "runtime/wait.h"

namespace cairn::io {
namespace {

// A few more than are put at a time, so that what has expired goes sooner than new values come.
constexpr std::size_t drops_per_put = 16;

struct State {
  explicit State(std::uint64_t bytes_most) noexcept : values(bytes_most) {}
  LocalValues values;
  bool closed = false;
};
using SharedState = std::shared_ptr<Guarded<State, dht_lock.rank>>;

std::unexpected<Error> closed() noexcept { return fail(ErrorCode::closed, "the DHT is closed"); }

class LocalPort final : public Dht {
 public:
  LocalPort(SharedState state, Shard& shard) noexcept : state_(std::move(state)), shard_(shard) {}

  Task<Result<DhtOutcome>> get(Call call, DhtKey key, DhtSink take) override {
    CO_TRY_VOID(may_begin(call, "dht get"));
    const std::optional<std::vector<DhtValue>> found =
        state_->with([&](const State& state) -> std::optional<std::vector<DhtValue>> {
          if (state.closed) return std::nullopt;
          return state.values.find(key, shard_.now());
        });
    if (!found) co_return closed();
    DhtOutcome outcome;
    for (const DhtValue& value : *found) {
      ++outcome.given;
      outcome.satisfied = take(value);
      if (outcome.satisfied) co_return outcome;
      if (outcome.given % dht_values_per_turn != 0) continue;
      co_await yield(call);
      CO_TRY_VOID(may_begin(call, "dht get"));
    }
    outcome.complete = true;
    co_return outcome;
  }
  Task<Result<>> put(Call call, DhtKey key, DhtValue value) override {
    if (const char* fault = find_fault(value)) co_return fail(ErrorCode::invalid, fault);
    CO_TRY_VOID(may_begin(call, "dht put"));
    co_return state_->with([&](State& state) -> Result<> {
      if (state.closed) return closed();
      return state.values.put(key, std::move(value), shard_.now());
    });
  }
  Task<Result<DhtStatus>> status(Call) override {
    co_return state_->with([](const State& state) -> Result<DhtStatus> {
      if (state.closed) return closed();
      DhtStatus status;
      status.ready = true;
      status.stored_values = state.values.values();
      status.stored_bytes = state.values.bytes();
      return status;
    });
  }
  // It has no peers and needs none.
  Task<Result<std::vector<DhtPeer>>> export_peers(Call) override {
    if (is_closed()) co_return closed();
    co_return std::vector<DhtPeer>{};
  }
  Task<Result<>> bootstrap(Call, std::vector<Endpoint>) override {
    if (is_closed()) co_return closed();
    co_return Result<>{};
  }

 private:
  bool is_closed() const {
    return state_->with([](const State& state) { return state.closed; });
  }

  SharedState state_;
  Shard& shard_;
};

class LocalNode final : public DhtNode {
 public:
  explicit LocalNode(std::uint64_t bytes_most)
      : state_(std::make_shared<Guarded<State, dht_lock.rank>>(bytes_most)) {}
  std::unique_ptr<Dht> make_port(Machine& machine) override {
    return std::make_unique<LocalPort>(state_, machine.shard);
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the interface; not used
  Task<Result<>> close(Call, Machine&) override {
    const LocalValues gone = state_->with([](State& state) {
      state.closed = true;
      return std::exchange(state.values, LocalValues(0));
    });
    co_return Result<>{};
  }

 private:
  SharedState state_;
};

}  // namespace

// The tree nodes and the place in its key's list, beside the bytes.
std::uint64_t LocalValues::cost(const DhtValue& value) noexcept { return value.bytes.size() + 256; }

Result<> LocalValues::put(const DhtKey& key, DhtValue value, Instant now) {
  drop_expired(key, now);
  const auto there = by_key_.find(key);
  if (there != by_key_.end()) {
    const auto same = std::ranges::find_if(there->second, [&](Place at) { return at->value.id == value.id; });
    if (same != there->second.end()) {
      Kept& kept = **same;
      if (kept.value.bytes != value.bytes) return {};
      kept.expires = now + dht_value_life;
      by_age_.splice(by_age_.end(), by_age_, *same);
      return {};
    }
    if (there->second.size() == dht_values_most)
      return fail(ErrorCode::storage_full, "too many values of one key");
  }
  if (bytes_ + cost(value) > bytes_most_) return fail(ErrorCode::storage_full, "the DHT within the process");
  bytes_ += cost(value);
  by_age_.push_back({key, std::move(value), now + dht_value_life});
  by_key_[key].push_back(std::prev(by_age_.end()));
  return {};
}

std::vector<DhtValue> LocalValues::find(const DhtKey& key, Instant now) const {
  std::vector<DhtValue> found;
  const auto there = by_key_.find(key);
  if (there == by_key_.end()) return found;
  for (const Place at : there->second)
    if (at->expires > now) found.push_back(at->value);
  return found;
}

// All of this key, which is about to change, and some of the others.
void LocalValues::drop_expired(const DhtKey& key, Instant now) {
  if (const auto there = by_key_.find(key); there != by_key_.end())
    for (const Place at : std::vector<Place>(there->second))
      if (at->expires <= now) drop(at);
  for (std::size_t i = 0; i < drops_per_put && !by_age_.empty() && by_age_.front().expires <= now; ++i)
    drop(by_age_.begin());
}

void LocalValues::drop(Place at) {
  const auto there = by_key_.find(at->key);
  std::erase(there->second, at);
  if (there->second.empty()) by_key_.erase(there);
  bytes_ -= cost(at->value);
  by_age_.erase(at);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the interface; not used
Task<Result<std::shared_ptr<DhtNode>>> LocalDhtMaker::open(Call, Machine&, DhtOptions options) {
  co_return std::make_shared<LocalNode>(options.store_bytes);
}

}  // namespace cairn::io
