// Semaphore: a counted set of permits of one shard, handed out in order of arrival.
//   [P-1] available + held == total, whatever is cancelled and when.
#pragma once

#include <utility>

#include "base/result.h"
#include "runtime/shard.h"
#include "runtime/waiter.h"

namespace cairn {

class Semaphore;

// Returns its permit when it goes out of scope.
class Permit {
 public:
  Permit() = default;
  explicit Permit(Semaphore& semaphore) noexcept : semaphore_(&semaphore) {}
  Permit(Permit&& other) noexcept : semaphore_(std::exchange(other.semaphore_, nullptr)) {}
  Permit& operator=(Permit&& other) noexcept {
    std::swap(semaphore_, other.semaphore_);
    return *this;
  }
  ~Permit();

 private:
  Semaphore* semaphore_ = nullptr;
};

class Semaphore {
 public:
  Semaphore(Shard& shard, std::size_t permits) noexcept
      : shard_(shard), identity_(shard.new_identity()), total_(permits), available_(permits) {}
  ~Semaphore() { CHECK(waiters_.empty() && available_ == total_); }

  std::size_t available() const noexcept { return available_; }

  Result<Permit> try_acquire() noexcept {
    touch();
    if (available_ == 0 || !waiters_.empty()) return fail(ErrorCode::busy, "acquire");
    --available_;
    return Permit(*this);
  }

  // So many more permits from now on. Who waits has them first.
  void grow(std::size_t more) noexcept {
    total_ += more;
    while (more-- > 0) release();
  }

  // Cancel: clean (a permit granted in the same turn is still returned to the caller).
  class Acquire : public Waiter {
   public:
    Acquire(Semaphore& semaphore, const Call& call) noexcept : Waiter(call), semaphore_(semaphore) {}
    bool await_ready() noexcept {
      semaphore_.touch();
      if (semaphore_.available_ > 0 && semaphore_.waiters_.empty()) {
        --semaphore_.available_;
        granted_ = true;
        return true;
      }
      return !may_wait();
    }
    void await_suspend(std::coroutine_handle<> handle) noexcept {
      own(node_);
      semaphore_.waiters_.push_back(node_);
      begin(handle);
    }
    [[nodiscard]] Result<Permit> await_resume() noexcept {
      if (granted_ || why() == Wake::ready) return Permit(semaphore_);
      return fail(error("acquire"));
    }

   private:
    Semaphore& semaphore_;
    WaitNode node_;
    bool granted_ = false;
  };
  Acquire acquire(const Call& call) noexcept { return {*this, call}; }

 private:
  friend class Permit;
  void touch() const noexcept { shard_.trace(identity_, Access::write); }
  void release() noexcept {
    touch();
    if (!waiters_.empty())
      wake(waiters_.front());  // the permit passes on; it never becomes available in between
    else
      ++available_;
    CHECK(available_ <= total_);
  }

  Shard& shard_;
  std::uint64_t identity_;
  std::size_t total_;
  std::size_t available_;
  WaitList waiters_;
};

inline Permit::~Permit() {
  if (semaphore_ != nullptr) semaphore_->release();
}

}  // namespace cairn
