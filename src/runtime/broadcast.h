// Broadcast: a bounded ring of the newest items, read by each receiver at its own pace.
//   [B-1] A sender never waits: the oldest item gives way.
//   [B-2] For every receiver: items received + items reported as missed = items sent since it subscribed,
//         up to its cursor; in order, none twice.
//   [B-3] A receiver that fell behind is told `lagged` once with the exact number missed, then continues
//         at the oldest item still kept.
//   [B-4] After close() each receiver gets the items that are left (lag included), then `closed`.
// Items are copied out: make T cheap to copy (a shared pointer to an immutable event).
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "runtime/list.h"
#include "runtime/select.h"
#include "runtime/shard.h"

namespace cairn {

template <class T>
class Broadcast {
 public:
  class Receiver;
  class Recv;

  Broadcast(Shard& shard, std::size_t capacity)
      : shard_(shard),
        identity_(shard.new_identity()),
        capacity_(capacity),
        ring_(new std::optional<T>[capacity]) {
    CHECK(capacity > 0);
  }
  ~Broadcast() { CHECK(waiters_.empty() && receivers_.empty()); }
  Broadcast(const Broadcast&) = delete;
  Broadcast& operator=(const Broadcast&) = delete;

  std::size_t capacity() const noexcept { return capacity_; }
  // Items still kept for a receiver that would need them.
  std::size_t depth() const noexcept { return static_cast<std::size_t>(sent_ - oldest()); }
  std::uint64_t sent() const noexcept { return sent_; }
  // Items that the slowest receiver has not had yet, including those that it will be told it missed.
  std::uint64_t waiting() noexcept {
    std::uint64_t most = 0;
    receivers_.for_each([&](const Receiver& each) { most = std::max(most, sent_ - each.cursor_); });
    return most;
  }
  // Items missed by all receivers together.
  std::uint64_t lagged_total() const noexcept { return lagged_total_; }
  bool closed() const noexcept { return closed_; }
  Receiver subscribe() noexcept { return Receiver(*this); }

  // `closed` after close().
  Result<> send(T item) {
    shard_.trace(identity_, Access::write);
    if (closed_) return fail(ErrorCode::closed, "broadcast");
    ring_[sent_ % capacity_].emplace(std::move(item));
    ++sent_;
    wake_all();
    return {};
  }
  void close() noexcept {
    shard_.trace(identity_, Access::write);
    closed_ = true;
    wake_all();
  }

 private:
  std::uint64_t oldest() const noexcept { return sent_ > capacity_ ? sent_ - capacity_ : 0; }
  void wake_all() noexcept {
    while (!waiters_.empty()) wake(waiters_.front());
  }

  Shard& shard_;
  std::uint64_t identity_;
  std::size_t capacity_;
  std::unique_ptr<std::optional<T>[]> ring_;
  std::uint64_t sent_ = 0;
  std::uint64_t lagged_total_ = 0;
  List<Receiver> receivers_;
  bool closed_ = false;
  WaitList waiters_;
};

// One reader's cursor: sees the items sent after it was made. For one task at a time; stays in its place.
template <class T>
class Broadcast<T>::Receiver : public Link {
 public:
  explicit Receiver(Broadcast& bus) noexcept : bus_(bus), cursor_(bus.sent_) {
    bus_.receivers_.push_back(*this);
  }
  ~Receiver() { unlink(); }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // Never waits: nothing when there is no item yet; `lagged` (see missed()), `closed`.
  Result<std::optional<T>> try_recv() {
    if (!settled()) return std::optional<T>();
    if (cursor_ < bus_.oldest()) {
      missed_ = bus_.oldest() - cursor_;
      bus_.lagged_total_ += missed_;
      cursor_ = bus_.oldest();
      return fail(ErrorCode::lagged, "broadcast");
    }
    if (cursor_ == bus_.sent_) return fail(ErrorCode::closed, "broadcast");
    return std::optional<T>(*bus_.ring_[cursor_++ % bus_.capacity_]);
  }

  // The next item, or `lagged`, or `closed`. Cancel: clean (the cursor has not moved).
  Recv recv(const Call& call) noexcept { return Recv(*this, call); }

  // How many items the last `lagged` was about.
  std::uint64_t missed() const noexcept { return missed_; }

  // For select: ready when try_recv() would return an item or an error.
  SelectArm readable() noexcept {
    return {&bus_.waiters_, this,
            [](const void* self) { return static_cast<const Receiver*>(self)->settled(); }};
  }

 private:
  friend class Broadcast;
  friend class Recv;
  bool settled() const noexcept {
    bus_.shard_.trace(bus_.identity_, Access::read);
    return cursor_ != bus_.sent_ || bus_.closed_;
  }

  Broadcast& bus_;
  std::uint64_t cursor_;
  std::uint64_t missed_ = 0;
};

template <class T>
class Broadcast<T>::Recv : public Waiter {
 public:
  Recv(Receiver& receiver, const Call& call) noexcept : Waiter(call), receiver_(receiver) {}

  bool await_ready() noexcept {
    ready_ = receiver_.settled();
    return ready_ || !may_wait();
  }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    own(node_);
    receiver_.bus_.waiters_.push_back(node_);
    begin(handle);
  }
  [[nodiscard]] Result<T> await_resume() {
    if (!ready_ && why() != Wake::ready) return fail(error("broadcast"));
    Result<std::optional<T>> next = receiver_.try_recv();
    if (!next) return fail(next.error());
    CHECK(next->has_value());  // only this task moves the cursor
    return std::move(**next);
  }

 private:
  Receiver& receiver_;
  WaitNode node_;
  bool ready_ = false;
};

}  // namespace cairn
