// Watch: the latest value of something, for any number of receivers of one shard.
//   [WA-1] version() grows by one with every set(); nothing else changes the value.
//   [WA-2] A receiver that waits until changed() is refused has seen the newest value: intermediate values
//         may be skipped, the last one never is.
//   [WA-3] After close() the value stays readable; changed() first reports an unseen value, then `closed`.
// A new receiver has seen the value of that moment: read get() first, then wait for changes.
#pragma once

#include <utility>

#include "base/result.h"
#include "runtime/select.h"
#include "runtime/shard.h"

namespace cairn {

template <class T>
class Watch {
 public:
  class Receiver;
  class Changed;

  Watch(Shard& shard, T initial)
      : shard_(shard), identity_(shard.new_identity()), value_(std::move(initial)) {}
  ~Watch() { CHECK(waiters_.empty() && receivers_ == 0); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Precondition: not closed.
  void set(T value) {
    shard_.trace(identity_, Access::write);
    CHECK(!closed_);
    value_ = std::move(value);
    ++version_;
    wake_all();
  }
  void close() noexcept {
    shard_.trace(identity_, Access::write);
    closed_ = true;
    wake_all();
  }

  const T& value() const noexcept {
    shard_.trace(identity_, Access::read);
    return value_;
  }
  std::uint64_t version() const noexcept { return version_; }
  bool closed() const noexcept { return closed_; }
  Receiver subscribe() noexcept { return Receiver(*this); }

 private:
  void wake_all() noexcept {
    while (!waiters_.empty()) wake(waiters_.front());
  }

  Shard& shard_;
  std::uint64_t identity_;
  T value_;
  std::uint64_t version_ = 1;
  std::size_t receivers_ = 0;
  bool closed_ = false;
  WaitList waiters_;
};

// One reader's memory of what it has seen. Stays where it was made, because an arm points at it.
template <class T>
class Watch<T>::Receiver {
 public:
  explicit Receiver(Watch& watch) noexcept : watch_(watch), seen_(watch.version_) { ++watch_.receivers_; }
  ~Receiver() { --watch_.receivers_; }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // The newest value, which counts as seen from here on. The reference holds until the next suspension.
  const T& get() noexcept {
    seen_ = watch_.version_;
    return watch_.value();
  }
  bool unseen() const noexcept {
    watch_.shard_.trace(watch_.identity_, Access::read);
    return seen_ != watch_.version_;
  }

  // Succeeds when there is a value that get() has not returned yet; `closed` when there never will be.
  // Cancel: clean.
  Changed changed(const Call& call) noexcept { return Changed(*this, call); }

  // For select: ready when changed() would not wait.
  SelectArm changed_arm() noexcept {
    return {&watch_.waiters_, this,
            [](const void* self) { return static_cast<const Receiver*>(self)->settled(); }};
  }

 private:
  friend class Changed;
  bool settled() const noexcept { return unseen() || watch_.closed_; }

  Watch& watch_;
  std::uint64_t seen_;
};

template <class T>
class Watch<T>::Changed : public Waiter {
 public:
  Changed(Receiver& receiver, const Call& call) noexcept : Waiter(call), receiver_(receiver) {}

  bool await_ready() noexcept {
    ready_ = receiver_.settled();
    return ready_ || !may_wait();
  }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    own(node_);
    receiver_.watch_.waiters_.push_back(node_);
    begin(handle);
  }
  [[nodiscard]] Result<> await_resume() const noexcept {
    if (!ready_ && why() != Wake::ready) return fail(error("watch"));
    if (receiver_.unseen()) return {};
    return fail(ErrorCode::closed, "watch");
  }

 private:
  Receiver& receiver_;
  WaitNode node_;
  bool ready_ = false;
};

}  // namespace cairn
