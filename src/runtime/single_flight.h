// SingleFlight: concurrent callers of one key share one execution.
//   [F-1] For each key at most one execution runs at a time.
//   [F-2] Every caller gets exactly one answer: the shared value or error (by copy), its own stop, or busy.
//   [F-3] A leader that is stopped or ends with an exception fails no other caller: the longest waiting
//         caller is promoted and runs the work anew, under its own call.
//   [F-4] Keys in flight and callers waiting for one key are bounded; above either, `busy`.
// The work runs in the leader's own task and under its deadline, so no execution outlives its caller.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/result.h"
#include "runtime/shard.h"
#include "runtime/task.h"
#include "runtime/waiter.h"

namespace cairn {

template <class Key, class T, class Hash = std::hash<Key>>
class SingleFlight {
 public:
  SingleFlight(Shard& shard, std::size_t keys_max, std::size_t waiters_max) noexcept
      : shard_(shard), identity_(shard.new_identity()), keys_max_(keys_max), waiters_max_(waiters_max) {}
  ~SingleFlight() { CHECK(flights_.empty()); }
  SingleFlight(const SingleFlight&) = delete;
  SingleFlight& operator=(const SingleFlight&) = delete;

  std::size_t keys() const noexcept { return flights_.size(); }

  // `work(Call)` returns Task<Result<T>>; it runs only when this caller leads or is promoted.
  // Cancel: clean for the others (a stopped leader is succeeded); for the leader, as `work` says.
  template <class F>
  Task<Result<T>> run(Call call, Key key, F work) {
    touch();
    auto found = flights_.find(key);
    std::shared_ptr<Flight> flight;
    if (found == flights_.end()) {
      if (flights_.size() >= keys_max_) co_return fail(ErrorCode::busy, "single flight keys");
      flight = flights_.emplace(key, std::make_shared<Flight>()).first->second;
    } else {
      flight = found->second;
      if (flight->waiting >= waiters_max_) co_return fail(ErrorCode::busy, "single flight waiters");
      Join join(*this, call, *flight);
      CO_TRY_VOID(co_await join);
      if (join.answer()) co_return std::move(*join.answer());
    }
    Lead lead(*this, *flight, key);
    Result<T> result = co_await work(call);
    if (!ended_by_stop(call, result)) lead.share(result);
    co_return result;
  }

 private:
  struct JoinNode : WaitNode {
    std::optional<Result<T>> answer;  // empty when woken: this caller is promoted
  };
  struct Flight {
    WaitList waiters;
    std::size_t waiting = 0;
  };

  class Join : public Waiter {
   public:
    Join(SingleFlight& owner, const Call& call, Flight& flight) noexcept
        : Waiter(call), owner_(owner), flight_(flight) {}
    bool await_ready() noexcept { return !may_wait(); }
    void await_suspend(std::coroutine_handle<> handle) noexcept {
      ++flight_.waiting;
      joined_ = true;
      own(node_);
      flight_.waiters.push_back(node_);
      begin(handle);
    }
    [[nodiscard]] Result<> await_resume() noexcept {
      owner_.touch();
      if (joined_) --flight_.waiting;
      if (joined_ && why() == Wake::ready) return {};
      return fail(error("single flight"));
    }
    std::optional<Result<T>>& answer() noexcept { return node_.answer; }

   private:
    SingleFlight& owner_;
    Flight& flight_;
    JoinNode node_;
    bool joined_ = false;
  };

  // Leaving without share(), by a stop or an exception, hands the lead over.
  class Lead {
   public:
    Lead(SingleFlight& owner, Flight& flight, const Key& key) noexcept
        : owner_(owner), flight_(flight), key_(key) {}
    Lead(const Lead&) = delete;
    Lead& operator=(const Lead&) = delete;
    ~Lead() {
      owner_.touch();
      if (flight_.waiters.empty())
        owner_.flights_.erase(key_);
      else
        wake(flight_.waiters.front());
    }
    void share(const Result<T>& result) {
      owner_.touch();
      while (!flight_.waiters.empty()) {
        auto& node = static_cast<JoinNode&>(flight_.waiters.front());
        node.answer.emplace(result);
        wake(node);
      }
    }

   private:
    SingleFlight& owner_;
    Flight& flight_;
    const Key& key_;
  };

  // A timeout of some inner, narrower deadline is an answer like any other; the leader's own is not.
  static bool ended_by_stop(const Call& call, const Result<T>& result) noexcept {
    if (result) return false;
    if (result.error().code == ErrorCode::cancelled) return true;
    return result.error().code == ErrorCode::timeout && call.expired();
  }

  void touch() const noexcept { shard_.trace(identity_, Access::write); }

  Shard& shard_;
  std::uint64_t identity_;
  std::size_t keys_max_;
  std::size_t waiters_max_;
  std::unordered_map<Key, std::shared_ptr<Flight>, Hash> flights_;
};

}  // namespace cairn
