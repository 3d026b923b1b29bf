#include "services/index/dht_target.h"

#include <exception>

#include "runtime/scope.h"
#include "runtime/wait.h"

namespace cairn::index {

// One search, in the frame of ask().
class DhtTarget::Search {
 public:
  Search(DhtTarget& of, const Call& call, const Address& address)
      : of_(of), address_(address), found_(address), scope_(of.shard_, call) {}

  Task<Result<Answer>> go(Call call) {
    // Made before the task is there: behind it nothing may fail for want of memory until it has ended.
    Task<> ended = scope_.join_all(call);
    Task<> searching = search(call.under(scope_.source()));
    Task<Result<>> waiting = wait(call);
    scope_.spawn("dht", std::move(searching));
    Result<> waited;
    std::exception_ptr problem;
    try {
      waited = co_await std::move(waiting);
    } catch (...) {
      problem = std::current_exception();
    }
    scope_.cancel(StopReason::superseded);
    co_await std::move(ended);
    if (problem) std::rethrow_exception(problem);
    co_return conclude(waited);
  }

 private:
  Task<> search(Call call) {
    auto outcome = co_await of_.dht_.get(call, io::dht_key(provider_key_tag, of_.network_, address_),
                                         [this](const io::DhtValue& value) { return take(value); });
    outcome_ = std::move(outcome);
    wake_all();
  }

  // Never enough: the wait decides when it is.
  bool take(const io::DhtValue& value) {
    // Signatures cost: what is not asked for is not looked at so closely.
    const auto read = format::read_provider_record(as_bytes(value.bytes));
    if (read && (read->address != address_ || !can_reach(*read, of_.reach_))) {
      ++of_.refused_.foreign;
      return false;
    }
    auto record = format::decode_provider_record(as_bytes(value.bytes));
    if (!record) {
      ++of_.refused_.forged;
    } else {
      found_.add({std::move(*record), value.bytes}, of_.shard_.wall());
      if (found_.has_fresh(of_.shard_.wall())) wake_all();
    }
    return false;
  }

  // Until the search has ended, or for a moment after the first fresh record.
  Task<Result<>> wait(Call call) {
    while (!outcome_ && !found_.has_fresh(of_.shard_.wall()))
      CO_TRY_VOID(co_await ListWait(call, changed_, "dht"));
    const Instant until = of_.shard_.now() + gather;
    while (!outcome_)
      if (!co_await ListWait(call.by(until), changed_, "dht")) break;
    co_return Result<>{};
  }

  Result<Answer> conclude(const Result<>& waited) {
    // Also records that are over: they say that older ones of their nodes are.
    if (found_.has_fresh(of_.shard_.wall())) return Answer{std::move(found_).take(), {}};
    if (!waited) return fail(waited.error());
    if (!outcome_) return fail(ErrorCode::upstream, "the search of the DHT has not ended", Side::upstream);
    if (!*outcome_) return fail(outcome_->error());
    if (!(*outcome_)->complete)
      return fail(ErrorCode::upstream, "the search of the DHT was not complete", Side::upstream);
    return Answer{std::move(found_).take(), {}};
  }

  void wake_all() noexcept {
    while (!changed_.empty()) wake(changed_.front());
  }

  DhtTarget& of_;
  Address address_;
  ProviderSet found_;
  std::optional<Result<io::DhtOutcome>> outcome_;
  WaitList changed_;
  Scope scope_;
};

Task<Result<Answer>> DhtTarget::ask(Call call, Question question) {
  Search search(*this, call, std::get<Address>(question));
  co_return co_await search.go(call);
}

}  // namespace cairn::index
