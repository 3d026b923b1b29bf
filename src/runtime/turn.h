// Turns: limits how many tasks of a shard work at once. A task asks for its turn, runs in its own coroutine
// while it holds the Turn, and gives it back by destroying it.
//   [TN-1] Over all shards together at most places.limit() tasks wait. A task that stops waiting gives its
//         place back at once.
//   [TN-2] A task whose deadline has passed or whose call was stopped when its turn comes is passed over.
//   [TN-3] A new turn is granted only while fewer turns are out than there are workers. A worker that dies
//         takes its slot with it: turns already granted are kept, and no new one is granted until there are
//         fewer turns out than workers again.
//   [TN-4] Waiting tasks get their turns as the TurnOrder says. While a task waits, no task gets a turn
//         except through the TurnOrder.
//   [TN-5] After close() no task joins; the tasks that wait already still get their turns.
// A worker is a supervised task that lends one slot for as long as it lives. A free slot is taken at once,
// without waking the worker.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/result.h"
#include "runtime/list.h"
#include "runtime/permits.h"
#include "runtime/task.h"
#include "runtime/wait.h"

namespace cairn {

// One task that waits for its turn. It lives in that task's frame.
class TurnSeeker : public Link {
 public:
  TurnSeeker(const Call& of, std::uint32_t units, PermitHold taken) noexcept
      : call(of), cost(units), place(std::move(taken)) {}

  const Call call;           // its context names the tenant
  const std::uint32_t cost;  // what the order may charge for the turn
 private:
  friend class Turns;
  PermitHold place;
  WaitList waiters;
  bool granted = false;
};

// The policy that picks the next waiting task. It holds only the seekers that wait. Only its Turns call it.
class TurnOrder {
 public:
  virtual ~TurnOrder() = default;
  virtual void add(TurnSeeker& seeker) noexcept = 0;
  virtual TurnSeeker* take_next() noexcept = 0;  // null: no task waits
  virtual void remove(TurnSeeker& seeker) noexcept = 0;
};

class FifoOrder final : public TurnOrder {
 public:
  void add(TurnSeeker& seeker) noexcept override { list_.push_back(seeker); }
  TurnSeeker* take_next() noexcept override { return list_.empty() ? nullptr : &list_.pop_front(); }
  void remove(TurnSeeker& seeker) noexcept override { seeker.unlink(); }

 private:
  List<TurnSeeker> list_;
};

class DrrTenant;
class Turn;

// Who asks for a turn.
struct Seeking {
  std::uint32_t cost = 1;       // what an order may charge
  DrrTenant* tenant = nullptr;  // null: nobody in particular. An order of tenants needs one
};

// Where a task waits for its turn: a shard's own Turns, or one that a service brings along.
class Turnstile {
 public:
  virtual ~Turnstile() = default;
  // As Turns::ask().
  virtual Task<Result<Turn>> ask(Call call, Seeking seeking) = 0;
  // For a worker of this shard, as Turns::work().
  virtual Task<> work(Call call) = 0;
  virtual void close() noexcept = 0;
  // How many workers this shard has, where `usual` is what a shard has.
  virtual std::size_t workers(std::size_t usual) const noexcept { return usual; }
  // Tasks of this shard that wait.
  virtual std::size_t depth() const noexcept = 0;

 private:
  friend class Turn;
  virtual void give_back(DrrTenant* tenant) noexcept = 0;
};

// A turn, until it is dropped.
class Turn {
 public:
  Turn() = default;
  // For a Turnstile: its turn, which it gets back once.
  explicit Turn(Turnstile& of, DrrTenant* tenant = nullptr) noexcept : of_(&of), tenant_(tenant) {}
  Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)), tenant_(other.tenant_) {}
  Turn& operator=(Turn&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(tenant_, other.tenant_);
    return *this;
  }
  ~Turn() {
    if (of_ != nullptr) of_->give_back(tenant_);
  }
  explicit operator bool() const noexcept { return of_ != nullptr; }

 private:
  Turnstile* of_ = nullptr;
  DrrTenant* tenant_ = nullptr;
};

class Turns final : public Turnstile {
 public:
  using DepthChanged = std::function<void(std::size_t depth)>;

  // `places`, which all shards share, and `order` outlive this.
  Turns(Shard& shard, Permits& places, TurnOrder& order, DepthChanged depth_changed = {})
      : shard_(shard),
        identity_(shard.new_identity()),
        places_(places),
        order_(order),
        depth_changed_(std::move(depth_changed)) {}
  ~Turns() override { CHECK(out_ == 0 && depth_ == 0 && slots_ == 0); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  std::size_t depth() const noexcept override { return depth_; }
  std::size_t out() const noexcept { return out_; }

  // Waits for a turn. `busy` when every place is taken, `closed` after close(), the call's own error when the
  // call ended before its turn came. Cancel: clean — no turn was taken.
  Task<Result<Turn>> ask(Call call, Seeking seeking = {}) override {
    touch();
    if (closed_) co_return fail(ErrorCode::closed, "turn");
    // A free slot means that no task waits: otherwise that task would have got it.
    if (out_ < slots_ && !call.expired() && !call.stopped()) co_return take();
    auto place = places_.try_hold();
    if (!place) co_return fail(ErrorCode::busy, "work queue is full");
    TurnSeeker seeker(call, seeking.cost, std::move(*place));
    order_.add(seeker);
    set_depth(depth_ + 1);
    const Result<> waited = co_await ListWait(call, seeker.waiters, "work queue");
    touch();
    if (!seeker.granted) {
      if (seeker.place) leave(seeker);  // else it was passed over
      co_return fail(waited.error());
    }
    Turn turn(*this);
    // The deadline may have passed between the grant and this step.
    if (call.expired()) co_return fail(ErrorCode::timeout, "work queue");
    co_return turn;
  }

  // For workers: lends one slot until, after close(), no task waits or holds a turn. Cancel: clean — the slot
  // is taken away.
  Task<> work(Call call) override {
    const Slot slot(*this);
    while (!closed_ || depth_ > 0 || out_ > 0)
      if (!co_await ListWait(call, idle_, "for work to end")) co_return;
  }

  void close() noexcept override {
    touch();
    closed_ = true;
    wake_idle();
  }

 private:
  struct Slot {
    explicit Slot(Turns& turns) noexcept : of(turns) {
      of.touch();
      ++of.slots_;
      of.grant();
    }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() {
      of.touch();
      --of.slots_;
    }
    Turns& of;
  };

  void touch() const noexcept { shard_.trace(identity_, Access::write); }
  Turn take() noexcept {
    ++out_;
    return Turn(*this);
  }
  void set_depth(std::size_t depth) {
    depth_ = depth;
    if (depth_changed_) depth_changed_(depth);
  }
  void leave(TurnSeeker& seeker) {
    order_.remove(seeker);
    set_depth(depth_ - 1);
  }
  void give_back(DrrTenant*) noexcept override {
    touch();
    --out_;
    grant();
    wake_idle();
  }
  void grant() noexcept {
    while (out_ < slots_) {
      TurnSeeker* next = order_.take_next();
      if (next == nullptr) return;
      next->place = PermitHold();
      set_depth(depth_ - 1);
      // The seeker's wait was already ended by its deadline or by a stop: it leaves without a turn (TN-2).
      if (next->waiters.empty()) continue;
      next->granted = true;
      ++out_;
      wake(next->waiters.front());
    }
  }
  void wake_idle() noexcept {
    if (!closed_ || depth_ > 0 || out_ > 0) return;
    while (!idle_.empty()) wake(idle_.front());
  }

  Shard& shard_;
  std::uint64_t identity_;
  Permits& places_;
  TurnOrder& order_;
  DepthChanged depth_changed_;
  std::size_t depth_ = 0;  // tasks that wait
  std::size_t out_ = 0;
  std::size_t slots_ = 0;
  bool closed_ = false;
  WaitList idle_;  // workers
};

}  // namespace cairn
