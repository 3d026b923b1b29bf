// Errand: a request to the one task that may do some work, whichever shard that task lives on (its home). The
// errand travels to the home shard by mail, waits there for its turn, is answered, and travels back. Errands
// are bounded: the asking shard takes a place first, and the errand holds it to its end.
//   [E-1] An errand is answered exactly once, on the shard that asked, or dropped there if its asker has
//         stopped waiting.
//   [E-2] An errand that was withdrawn, or whose deadline passed, before home came to it is never begun.
//   [E-3] Once home is closed, errands that wait and errands that arrive later are refused; none is lost.
//   [E-4] Errands are begun in the order of arrival; one that was put back is the next.
//
// An errand and its result belong to one shard at a time: mail hands them over. Atomic: `withdrawn_`, written
// by the asking shard and read at home; it publishes no other memory, so the order is relaxed.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "runtime/mailbox.h"
#include "runtime/permits.h"
#include "runtime/task.h"
#include "runtime/wait.h"

namespace cairn {

template <class T>
class ErrandHome;

namespace errand_words {
inline constexpr char wait[] = "answer";
inline constexpr char too_late[] = "the deadline passed before it was begun";
}  // namespace errand_words

// Whether this error says that an errand was not answered in time, begun or not.
inline bool is_late_errand(const Error& error) noexcept {
  return error.code == ErrorCode::timeout &&
         (error.context == errand_words::wait || error.context == errand_words::too_late);
}

struct ErrandLink : Link {};

// T derives from it and holds the question; A is the answer. Its memory is recycled like a coroutine frame,
// because every change makes an errand.
template <class T, class A>
class Errand : public MailItem, public ErrandLink, public PooledFrame {
 public:
  using Answer = A;
  Result<A> result = fail(ErrorCode::internal, "not decided");  // belongs to home until the answer

 private:
  friend class ErrandHome<T>;
  void touch() const noexcept {
    if (Shard* shard = current_shard()) shard->trace(identity_, Access::write);
  }

  ErrandHome<T>* home_ = nullptr;
  std::uint64_t identity_ = 0;  // of home, which may be destroyed before the answer arrives
  Instant deadline_ = Instant::never();
  std::atomic<bool> withdrawn_{false};
  // --- of the shard that asked
  Mailbox* from_ = nullptr;
  PermitHold place_;
  WaitList waiting_;
  bool done_ = false;
  bool orphan_ = false;  // its asker has left: it deletes itself
};

// The receiving end: one task of this shard answers the errands.
template <class T>
class ErrandHome {
 public:
  // The error texts of a refusal.
  struct Words {
    const char* busy;
    const char* closed;
  };
  class Arrival : public ListWait {
   public:
    Arrival(const Call& call, ErrandHome& home) noexcept
        : ListWait(call, home.arrived_, "errands"), home_(home) {}
    bool await_ready() noexcept { return !home_.empty() || ListWait::await_ready(); }
    [[nodiscard]] bool await_resume() const noexcept { return !home_.empty(); }

   private:
    ErrandHome& home_;
  };

  // `mailbox` is this shard's.
  ErrandHome(Shard& shard, Mailbox& mailbox, Words words) noexcept
      : shard_(shard), mailbox_(mailbox), words_(words), identity_(shard.new_identity()) {}
  // Precondition: its task has ended, no shard asks or withdraws any more, and no errand is on its way here.
  ~ErrandHome() {
    touch();
    while (!pending_.empty()) {
      T& errand = pending_.pop_front();
      // The asking shard may have stopped draining its mail, and the errand's place must be given back before
      // the places are destroyed.
      if (errand.orphan_)
        delete &errand;
      else
        refuse(errand, closed_error());
    }
  }

  // --- from any shard; `from` is its mailbox. Null `places`: an errand of home's own, which needs none.
  // Sends the errand and waits for its answer. `busy`: no place is left. Cancel: partial — an errand that was
  // begun may still be done.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the asking shard's own
  Task<Result<typename T::Answer>> ask(Call call, std::unique_ptr<T> errand, Mailbox& from, Permits* places) {
    T& sent = *errand;
    CO_TRY_VOID(send(sent, from, places, call.deadline()));
    if (!sent.done_) {
      const Result<> waited = co_await ListWait(call, sent.waiting_, errand_words::wait);
      sent.touch();
      if (!sent.done_) {
        // The errand goes on without its asker, or is never begun; come_back() deletes it. Home may be
        // destroyed already.
        sent.withdrawn_.store(true, std::memory_order_relaxed);
        sent.orphan_ = true;
        (void)errand.release();
        co_return fail(waited.error());
      }
    }
    co_return std::move(sent.result);
  }
  // The same without waiting: the answer is dropped.
  Result<> leave(std::unique_ptr<T> errand, Mailbox& from, Permits* places) {
    errand->orphan_ = true;
    TRY_VOID(send(*errand, from, places, Instant::never()));
    (void)errand.release();  // it may be deleted already
    return {};
  }

  // --- at home
  // co_await arrived(call): waits until an errand is pending; false when the call was stopped and none is.
  // One task waits at a time. Cancel: clean.
  Arrival arrived(const Call& call) noexcept { return {call, *this}; }
  // The first errand; it stays queued until take(). Null: there is none. Errands that must not be begun any
  // more (E-2) are refused on the way.
  T* next() noexcept {
    touch();
    while (!pending_.empty()) {
      T& errand = pending_.front();
      if (!errand.withdrawn_.load(std::memory_order_relaxed) && errand.deadline_ > shard_.now())
        return &errand;
      take(errand);
      refuse(errand, {ErrorCode::timeout, errand_words::too_late});
    }
    return nullptr;
  }
  void take(T& errand) noexcept {
    touch();
    static_cast<ErrandLink&>(errand).unlink();
    --waiting_;
  }
  // How many errands wait for their turn.
  std::size_t waiting() const noexcept {
    touch();
    return waiting_;
  }
  // Queues errands that were taken again, before all others.
  void put_back(List<T, ErrandLink>& again) noexcept {
    touch();
    again.for_each([this](T&) { ++waiting_; });
    again.take_all(pending_);
    pending_.take_all(again);
  }
  // Sends the errand back with its result; it does not belong to home any more. Precondition: it was taken.
  void answer(T& errand) noexcept {
    CHECK(!static_cast<ErrandLink&>(errand).linked());
    errand.deliver = come_back;
    // An errand of this shard needs no mail.
    if (errand.from_ == &mailbox_)
      come_back(errand);
    else
      errand.from_->post(errand);
  }
  void refuse(T& errand, const Error& error) noexcept {
    errand.result = fail(error);
    answer(errand);
  }
  // Precondition: its task has ended.
  void close() noexcept {
    touch();
    closed_ = true;
    while (!pending_.empty()) refuse(pending_.pop_front(), closed_error());
    waiting_ = 0;
  }

 private:
  Error closed_error() const noexcept { return {ErrorCode::draining, words_.closed}; }
  void touch() const noexcept {
    if (Shard* shard = current_shard()) shard->trace(identity_, Access::write);
  }
  bool empty() const noexcept {
    touch();
    return pending_.empty();
  }
  Result<> send(T& errand, Mailbox& from, Permits* places, Instant deadline) {
    if (places != nullptr) {
      auto place = places->try_hold();
      if (!place) return fail(ErrorCode::busy, words_.busy);
      errand.place_ = std::move(*place);
    }
    errand.home_ = this;
    errand.identity_ = identity_;
    errand.from_ = &from;
    errand.deadline_ = deadline;
    errand.deliver = arrive;
    if (&from == &mailbox_)
      arrive(errand);
    else
      mailbox_.post(errand);
    return {};
  }
  // Runs at home.
  static void arrive(MailItem& item) noexcept {
    T& errand = static_cast<T&>(item);
    ErrandHome& home = *errand.home_;
    home.touch();
    if (home.closed_) return home.refuse(errand, home.closed_error());
    home.pending_.push_back(errand);
    ++home.waiting_;
    while (!home.arrived_.empty()) wake(home.arrived_.front());
  }
  // Runs on the asking shard. Home may be destroyed already.
  static void come_back(MailItem& item) noexcept {
    T& errand = static_cast<T&>(item);
    errand.touch();
    CHECK(!std::exchange(errand.done_, true));  // E-1
    if (errand.orphan_)
      delete &errand;
    else
      while (!errand.waiting_.empty()) wake(errand.waiting_.front());
  }

  Shard& shard_;
  Mailbox& mailbox_;
  Words words_;
  std::uint64_t identity_;
  List<T, ErrandLink> pending_;
  std::size_t waiting_ = 0;  // size of pending_
  WaitList arrived_;
  bool closed_ = false;
};

}  // namespace cairn
