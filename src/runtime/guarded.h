// Guarded: a value and the lock around it. with(f) is the only way in, so no lock can be forgotten, leaked
// or held across a suspension. The tree's only mutex.
//   [G-1] f runs alone, to its end, on the calling thread: a coroutine or an awaitable result is refused at
//         compile time, and so is a reference or a pointer to the guarded value.
//   [G-2] A thread that drives a shard takes locks in rising rank only (CHECKed); equal ranks do not nest.
//   [G-3] Shard::held_locks has the rank's bit while f runs, and the loop CHECKs that it is zero after
//         every step.
// For data that threads share and touch briefly; never around I/O.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <mutex>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "runtime/condition.h"
#include "runtime/shard.h"

namespace cairn {

// The ranks of the runtime's own locks. They are leaves, above every rank a service declares (0..27).
namespace lock_rank {
inline constexpr unsigned dht_ask = 28;
inline constexpr unsigned tls_tickets = 29;
inline constexpr unsigned pool_lane = 30;
inline constexpr unsigned mailbox = 31;
}  // namespace lock_rank

// Something that could suspend or be resumed later: a coroutine's return type, or anything co_await takes.
template <class R>
concept Suspendable = requires { typename std::coroutine_traits<R>::promise_type; } ||
                      requires(R&& result) { std::forward<R>(result).await_ready(); } ||
                      requires(R&& result) { std::forward<R>(result).operator co_await(); } ||
                      requires(R&& result) { operator co_await(std::forward<R>(result)); };

// A reference, or a pointer to the guarded value itself: it would outlive the lock.
template <class R, class T>
concept Escaping =
    std::is_reference_v<R> ||
    (std::is_pointer_v<R> && std::is_same_v<std::remove_cv_t<std::remove_pointer_t<R>>, std::remove_cv_t<T>>);

// f(T&) that ends before it returns and lets nothing of T out.
template <class F, class T>
concept GuardedAccess = std::is_invocable_v<F, T&> && !Suspendable<std::invoke_result_t<F, T&>> &&
                        !Escaping<std::invoke_result_t<F, T&>, T>;

// `rank` is an integer or an enumerator below 32.
template <class T, auto rank>
class Guarded {
 public:
  static constexpr unsigned rank_bit = static_cast<unsigned>(rank);
  static_assert(rank_bit < 32);

  template <class... Args>
  explicit Guarded(Args&&... args) : identity_(identity_here()), value_(std::forward<Args>(args)...) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  template <class F>
    requires GuardedAccess<F, T>
  auto with(F&& f) {
    Hold hold(*this);
    return std::forward<F>(f)(value_);
  }
  template <class F>
    requires GuardedAccess<F, const T>
  auto with(F&& f) const {
    Hold hold(*this);
    return std::forward<F>(f)(value_);
  }

  // Blocks the thread until ready(value), then f(value). For pool threads only: a shard never blocks.
  template <class Ready, class F>
    requires GuardedAccess<F, T>
  auto wait(std::condition_variable& changed, Ready ready, F&& f) {
    CHECK(current_shard() == nullptr);
    std::unique_lock<std::mutex> lock(mutex_);
    changed.wait(lock, [&] { return ready(value_); });
    return std::forward<F>(f)(value_);
  }
  // The same for code that waits on a Condition instead of a std::condition_variable.
  template <class Ready, class F>
    requires GuardedAccess<F, T>
  auto wait(Condition& changed, Ready ready, F&& f) {
    CHECK(current_shard() == nullptr);
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ready(value_)) changed.wait(lock);
    return std::forward<F>(f)(value_);
  }

 private:
  class Hold {
   public:
    explicit Hold(const Guarded& guarded) : mutex_(guarded.mutex_), shard_(current_shard()) {
      if (shard_ != nullptr) {
        shard_->trace(guarded.identity_, Access::write);
        CHECK((shard_->held_locks >> rank_bit) == 0);  // G-2
        shard_->held_locks |= bit;
      }
      mutex_.lock();
    }
    ~Hold() {
      mutex_.unlock();
      if (shard_ != nullptr) shard_->held_locks &= ~bit;
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    static constexpr std::uint32_t bit = std::uint32_t{1} << rank_bit;
    std::mutex& mutex_;
    Shard* shard_;
  };

  static std::uint64_t identity_here() noexcept {
    Shard* shard = current_shard();
    return shard != nullptr ? shard->new_identity() : 0;
  }

  std::uint64_t identity_;
  mutable std::mutex mutex_;
  T value_;
};

}  // namespace cairn
