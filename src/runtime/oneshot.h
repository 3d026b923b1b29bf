// Oneshot: one value on its way to one receiver of the same shard.
//   [O-1] At most one value is ever sent, and it is received at most once.
//   [O-2] A value sent while the receiver waits, or before, is not lost by a deadline or a cancel of that
//         wait: it stays for the next recv.
//   [O-3] When the sender goes away without sending, the receiver gets `closed`; when the receiver goes
//         away first, the sender gets `closed`.
// The Oneshot is the receiving end and holds the value, usually in the receiver's frame; the Sender is the
// other end and may travel inside a queued job. Either may die first: each tells the other.
#pragma once

#include <optional>
#include <utility>

#include "base/result.h"
#include "runtime/select.h"
#include "runtime/shard.h"

namespace cairn {

template <class T>
class Oneshot {
 public:
  class Sender;
  class Recv;

  explicit Oneshot(Shard& shard) noexcept : shard_(shard), identity_(shard.new_identity()) {}
  ~Oneshot() {
    touch();
    CHECK(waiters_.empty());
    if (sender_ != nullptr) sender_->oneshot_ = nullptr;
  }
  Oneshot(const Oneshot&) = delete;
  Oneshot& operator=(const Oneshot&) = delete;

  // The sending end. Call it once.
  Sender sender() noexcept {
    CHECK(!had_sender_);
    had_sender_ = true;
    return Sender(*this);
  }

  // The value; `closed` when none will come any more. Cancel: clean (a value stays for the next recv).
  Recv recv(const Call& call) noexcept { return Recv(*this, call); }
  std::optional<T> try_recv() {
    touch();
    return std::exchange(value_, std::nullopt);
  }

  // For select: ready when there is a value, or there will never be one.
  SelectArm readable() noexcept {
    return {&waiters_, this, [](const void* self) { return static_cast<const Oneshot*>(self)->settled(); }};
  }

 private:
  void touch() const noexcept { shard_.trace(identity_, Access::write); }
  bool settled() const noexcept {
    touch();
    return value_.has_value() || (had_sender_ && sender_ == nullptr);
  }
  void wake_receiver() noexcept {
    while (!waiters_.empty()) wake(waiters_.front());
  }

  Shard& shard_;
  std::uint64_t identity_;
  std::optional<T> value_;
  Sender* sender_ = nullptr;
  bool had_sender_ = false;
  WaitList waiters_;
};

template <class T>
class Oneshot<T>::Sender {
 public:
  Sender() = default;
  Sender(Sender&& other) noexcept { adopt(other); }
  Sender& operator=(Sender&& other) noexcept {
    if (this != &other) {
      hang_up();
      adopt(other);
    }
    return *this;
  }
  ~Sender() { hang_up(); }

  // True until the value was sent or the receiver went away. A sender asks before it begins work for the
  // value.
  bool wanted() const noexcept {
    if (oneshot_ != nullptr) oneshot_->touch();
    return oneshot_ != nullptr;
  }

  // `closed` when the receiver is gone or a value was sent before; the value is untouched then.
  Result<> try_send(T&& value) {
    if (oneshot_ == nullptr) return fail(ErrorCode::closed, "oneshot");
    oneshot_->touch();
    oneshot_->value_.emplace(std::move(value));
    hang_up();
    return {};
  }

 private:
  friend class Oneshot;
  explicit Sender(Oneshot& oneshot) noexcept : oneshot_(&oneshot) { oneshot.sender_ = this; }
  void adopt(Sender& other) noexcept {
    oneshot_ = std::exchange(other.oneshot_, nullptr);
    if (oneshot_ != nullptr) oneshot_->sender_ = this;
  }
  void hang_up() noexcept {
    if (oneshot_ == nullptr) return;
    oneshot_->touch();
    oneshot_->sender_ = nullptr;
    oneshot_->wake_receiver();
    oneshot_ = nullptr;
  }

  Oneshot* oneshot_ = nullptr;
};

template <class T>
class Oneshot<T>::Recv : public Waiter {
 public:
  Recv(Oneshot& oneshot, const Call& call) noexcept : Waiter(call), oneshot_(oneshot) {}

  bool await_ready() noexcept {
    ready_ = oneshot_.settled();
    return ready_ || !may_wait();
  }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    CHECK(oneshot_.waiters_.empty());  // one receiver
    own(node_);
    oneshot_.waiters_.push_back(node_);
    begin(handle);
  }
  [[nodiscard]] Result<T> await_resume() {
    if (!ready_ && why() != Wake::ready) return fail(error("oneshot"));
    if (std::optional<T> value = oneshot_.try_recv()) return std::move(*value);
    return fail(ErrorCode::closed, "oneshot");
  }

 private:
  Oneshot& oneshot_;
  WaitNode node_;
  bool ready_ = false;
};

}  // namespace cairn
