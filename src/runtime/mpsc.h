// Mpsc: the bounded queue between tasks of one shard. Many senders; its consumers are declared workers.
//   depth() <= capacity(), always.
//   An accepted item is received exactly once, or returned by drain.
//   Items of one sender are received in the order they were accepted.
//   close() wakes every waiter; receivers get the items that are left, then `closed`.
//   A queue that drops the oldest accepts every item until it is closed: items received + dropped() +
//         depth() = items sent.
// A full queue refuses (`try_send`), makes the sender wait until its deadline (`send`), or drops its oldest
// item; it never grows.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "runtime/declaration.h"
#include "runtime/select.h"
#include "runtime/shard.h"
#include "runtime/waiter.h"

namespace cairn {

template <class T>
class Mpsc {
 public:
  explicit Mpsc(Shard& shard, std::size_t capacity, OverflowPolicy policy = OverflowPolicy::refuse)
      : shard_(shard),
        identity_(shard.new_identity()),
        capacity_(capacity),
        drops_oldest_(policy == OverflowPolicy::drop_oldest),
        ring_(new std::optional<T>[capacity]) {
    CHECK(capacity > 0 && policy != OverflowPolicy::keep_latest);
  }
  ~Mpsc() { CHECK(receivers_.empty() && senders_.empty()); }
  Mpsc(const Mpsc&) = delete;
  Mpsc& operator=(const Mpsc&) = delete;

  std::size_t capacity() const noexcept { return capacity_; }
  std::size_t depth() const noexcept { return depth_; }
  bool closed() const noexcept { return closed_; }
  std::uint64_t dropped() const noexcept { return dropped_; }

  // Never waits. On `busy` (full) or `closed` the item is untouched.
  Result<> try_send(T&& item) {
    touch();
    if (closed_) return fail(ErrorCode::closed, "send");
    if (depth_ == capacity_) {
      if (!drops_oldest_) return fail(ErrorCode::busy, "send");
      drop_oldest();
    }
    deliver(std::move(item));
    return {};
  }

  // Waits for room until the call's deadline. Cancel: clean (the item was not accepted).
  class Send;
  Send send(const Call& call, T item) { return Send(*this, call, std::move(item)); }

  std::optional<T> try_recv() {
    touch();
    if (depth_ == 0) return std::nullopt;
    return take();
  }

  // The next item; `closed` when the queue is closed and empty. Cancel: clean (no item was taken).
  class Recv;
  Recv recv(const Call& call) { return Recv(*this, call); }

  void close() noexcept {
    touch();
    closed_ = true;
    while (!receivers_.empty()) wake(receivers_.front(), closed_verdict);
    while (!senders_.empty()) wake(senders_.front(), closed_verdict);
  }

  // For select: ready when there is an item, or there will never be one again.
  SelectArm readable() noexcept {
    return {&receivers_, this, [](const void* self) {
              auto* queue = static_cast<const Mpsc*>(self);
              queue->touch();
              return queue->depth_ > 0 || queue->closed_;
            }};
  }

 private:
  static constexpr std::uint8_t closed_verdict = 1;

  // A receiver that waits in recv() has a slot the sender fills; a select arm has none.
  struct RecvNode : WaitNode {
    std::optional<T> slot;
  };
  static constexpr std::uint8_t recv_arm = 255;  // tells RecvNode from a select's plain node
  struct SendNode : WaitNode {
    std::optional<T> item;
  };

  void touch() const noexcept { shard_.trace(identity_, Access::write); }

  void push(T&& item) {
    ring_[(first_ + depth_) % capacity_].emplace(std::move(item));
    ++depth_;
    CHECK(depth_ <= capacity_);
  }

  // In a queue that drops, no sender ever waits.
  void drop_oldest() noexcept {
    ring_[first_].reset();
    first_ = (first_ + 1) % capacity_;
    --depth_;
    ++dropped_;
  }

  // Precondition: there is room.
  void deliver(T&& item) {
    if (receivers_.empty()) {
      push(std::move(item));
      return;
    }
    WaitNode& node = receivers_.front();
    if (node.arm == recv_arm && depth_ == 0) {
      static_cast<RecvNode&>(node).slot.emplace(std::move(item));
    } else {
      push(std::move(item));
      // A select was woken for earlier items and has not taken them yet: the oldest item goes first.
      if (node.arm == recv_arm) static_cast<RecvNode&>(node).slot.emplace(take());
    }
    wake(node);
  }

  // Precondition: depth_ > 0. The oldest waiting sender moves up into the freed place.
  T take() {
    std::optional<T>& cell = ring_[first_];
    T item = std::move(*cell);
    cell.reset();
    first_ = (first_ + 1) % capacity_;
    --depth_;
    if (!senders_.empty()) {
      auto& sender = static_cast<SendNode&>(senders_.front());
      push(std::move(*sender.item));
      wake(sender);
    }
    return item;
  }

  Shard& shard_;
  std::uint64_t identity_;
  std::size_t capacity_;
  bool drops_oldest_;
  std::unique_ptr<std::optional<T>[]> ring_;
  std::size_t first_ = 0;
  std::size_t depth_ = 0;
  std::uint64_t dropped_ = 0;
  bool closed_ = false;
  WaitList receivers_;
  WaitList senders_;
};

template <class T>
class Mpsc<T>::Send : public Waiter {
 public:
  Send(Mpsc& queue, const Call& call, T item) : Waiter(call), queue_(queue) {
    node_.item.emplace(std::move(item));
  }

  bool await_ready() {
    queue_.touch();
    if (queue_.closed_) {
      outcome_ = ErrorCode::closed;
      return true;
    }
    if (queue_.drops_oldest_ && queue_.depth_ == queue_.capacity_) queue_.drop_oldest();
    // Senders that wait already go first: no sender overtakes another.
    if (queue_.depth_ < queue_.capacity_ && queue_.senders_.empty()) {
      queue_.deliver(std::move(*node_.item));
      outcome_ = ErrorCode::ok;
      return true;
    }
    return !may_wait();
  }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    own(node_);
    queue_.senders_.push_back(node_);
    begin(handle);
  }
  [[nodiscard]] Result<> await_resume() const noexcept {
    if (outcome_ == ErrorCode::ok) return {};
    if (outcome_ == ErrorCode::closed || node_.verdict == closed_verdict)
      return fail(ErrorCode::closed, "send");
    if (why() == Wake::ready) return {};
    return fail(error("send"));
  }

 private:
  Mpsc& queue_;
  SendNode node_;
  ErrorCode outcome_ = ErrorCode::internal;
};

template <class T>
class Mpsc<T>::Recv : public Waiter {
 public:
  Recv(Mpsc& queue, const Call& call) : Waiter(call), queue_(queue) {}

  bool await_ready() {
    queue_.touch();
    if (queue_.depth_ > 0) {
      node_.slot.emplace(queue_.take());
      return true;
    }
    if (queue_.closed_) {
      node_.verdict = closed_verdict;
      return true;
    }
    return !may_wait();
  }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    own(node_, recv_arm);
    queue_.receivers_.push_back(node_);
    begin(handle);
  }
  [[nodiscard]] Result<T> await_resume() {
    if (node_.slot) return std::move(*node_.slot);
    if (node_.verdict == closed_verdict) return fail(ErrorCode::closed, "recv");
    return fail(error("recv"));
  }

 private:
  Mpsc& queue_;
  RecvNode node_;
};

}  // namespace cairn
