#include "services/index/publisher.h"

#include <algorithm>
#include <cstring>

#include "crypto/blake3.h"
#include "runtime/wait.h"
#include "services/index/dht_target.h"

namespace cairn::index {
namespace {

constexpr Duration put_patience = Duration::seconds(30);
constexpr Duration status_period = Duration::seconds(1);

// Bytes under an id never change (io/dht.h [DH-4]): so the id follows from them.
std::uint64_t value_id(std::string_view bytes) noexcept {
  const Address hash = crypto::hash_object(as_bytes(bytes));
  std::uint64_t id = 0;
  std::memcpy(&id, hash.bytes.data(), sizeof id);
  return id == 0 ? 1 : id;
}

}  // namespace

Publisher::Publisher(Shard& shard, io::Dht& dht, ProviderPort& providers, PublishPolicy policy)
    : shard_(shard), dht_(dht), providers_(providers), policy_(policy) {}

void Publisher::note(const Address& address) { cover(address, named_.contains(address)); }

void Publisher::note_named(const Address& address) {
  if (!named_.insert(address).second) return;
  named_order_.push_back(address);
  if (named_order_.size() > policy_.keys_most) {
    named_.erase(named_order_.front());
    named_order_.pop_front();
  }
  // It may not have been announced; its first put finds that out.
  cover(address, true);
}

void Publisher::set_keys_most(std::size_t most) {
  policy_.keys_most = most;
  drop_surplus();
}

void Publisher::cover(const Address& address, bool named) {
  const auto [at, fresh] = covered_.try_emplace(address);
  Entry& entry = at->second;
  if (!fresh) by_rank_.erase(rank_of(entry));
  entry.named = entry.named || named;
  entry.noted = ++noted_;
  by_rank_.emplace(rank_of(entry), address);
  const Instant now = shard_.now();
  // Most announcements only renew what was said: those need no put of their own.
  schedule(address, entry, entry.put ? std::max(now, std::min(entry.due, *entry.put + renew * 3 / 4)) : now);
  drop_surplus();
}

void Publisher::schedule(const Address& address, Entry& entry, Instant due) {
  if (entry.put_number == 0) {
    by_due_.erase({entry.due, address});
    by_due_.emplace(due, address);
    while (!changed_.empty()) wake(changed_.front());
  }
  entry.due = due;
}

void Publisher::uncover(Covered::iterator at) {
  by_rank_.erase(rank_of(at->second));
  by_due_.erase({at->second.due, at->first});
  covered_.erase(at);
}

void Publisher::drop_surplus() {
  while (covered_.size() > policy_.keys_most) uncover(covered_.find(by_rank_.begin()->second));  // DP-1
}

Task<> Publisher::run(Call call) {
  Scope scope(shard_, call);
  Task<> ended = scope.join_all(call);
  Instant next_status = shard_.now();
  while (!call.stopped()) {
    start_due(scope);
    if (shard_.now() >= next_status) {
      publish_status();
      next_status = shard_.now() + status_period;
    }
    const bool may_start = under_way_ < puts_most && !by_due_.empty();
    const Instant until = may_start ? std::min(next_status, by_due_.begin()->first) : next_status;
    (void)co_await ListWait(call.by(until), changed_, "publisher");
  }
  scope.cancel(StopReason::draining);
  co_await std::move(ended);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): not a coroutine
void Publisher::start_due(Scope& scope) {
  while (under_way_ < puts_most && !by_due_.empty() && by_due_.begin()->first <= shard_.now()) {  // DP-2
    const Address address = by_due_.begin()->second;
    Task<> putting = put(scope.call(), address, ++puts_);
    by_due_.erase(by_due_.begin());
    covered_.find(address)->second.put_number = puts_;
    ++under_way_;
    scope.spawn("put", std::move(putting));
  }
}

Task<> Publisher::put(Call call, Address address, std::uint64_t number) {
  auto stands = co_await put_records(call.within(put_patience), address);
  --under_way_;
  while (!changed_.empty()) wake(changed_.front());
  ++(stands ? status_.done : status_.failed);
  const auto at = covered_.find(address);
  // The address may have been given up meanwhile, and covered anew: that has a put of its own.
  if (at == covered_.end() || at->second.put_number != number || call.stopped()) co_return;
  Entry& entry = at->second;
  entry.put_number = 0;
  if (stands && !*stands) co_return uncover(at);  // DP-3
  const Instant now = shard_.now();
  if (stands) entry.put = now;
  schedule(address, entry, now + (stands ? renew : again));
}

// False: no record of the address is in force and leads anywhere.
Task<Result<bool>> Publisher::put_records(Call call, Address address) {
  CO_TRY(const auto known, co_await providers_.find(call, address));
  bool any = false;
  for (const KnownProvider& one : known) {
    if (one.record.is_withdrawal() || !can_reach(one.record, policy_.reach)) continue;
    any = true;
    CO_TRY_VOID(co_await dht_.put(call, io::dht_key(provider_key_tag, policy_.network, address),
                                  {value_id(one.bytes), one.bytes}));
  }
  co_return any;
}

void Publisher::publish_status() {
  const std::uint64_t all = providers_.table().status().addresses;
  status_.covered = covered_.size();
  status_.uncovered = all - std::min<std::uint64_t>(all, covered_.size());
  const bool waits = !by_due_.empty() && by_due_.begin()->first < shard_.now();
  status_.lag = waits ? (shard_.now() - by_due_.begin()->first).ns : 0;
}

}  // namespace cairn::index
