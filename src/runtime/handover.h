// Handover: a bounded queue through which tasks hand a job each to the workers of their shard, and wait until
// it is done. The job lives in the frame of its asker, the task that waits for it.
//   [HO-1] Over all shards together at most places.limit() jobs are queued. An asker that leaves the queue
//          leaves its place taken until a worker comes upon it.
//   [HO-2] A job whose asker left, whose time is up or whose call was stopped is never begun.
//   [HO-3] A job is begun at most once, and jobs go to the workers in the order in which they were queued.
//   [HO-4] The asker of a job that was begun goes on only when the worker has let go of it: until then the
//          worker uses the asker's memory. A worker that dies lets go too, and its asker is told so.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/mpsc.h"
#include "runtime/permits.h"
#include "runtime/task.h"
#include "runtime/wait.h"

namespace cairn {

template <class Job>
class Handover;

// What a job derives from.
class HandedOver {
 public:
  explicit HandedOver(const Call& call) noexcept : call_(call) {}
  HandedOver(const HandedOver&) = delete;
  HandedOver& operator=(const HandedOver&) = delete;
  ~HandedOver() { CHECK(state_ != State::begun); }  // HO-4
  // The asker's: its deadline and its stop bind the worker too.
  const Call& call() const noexcept { return call_; }

 private:
  template <class Job>
  friend class Handover;
  enum class State : std::uint8_t { waiting, begun, done, lost };
  Call call_;
  State state_ = State::waiting;
  WaitList waiters_;
};

template <class Job>
class Handover {
  struct Place {
    Job* job = nullptr;
    PermitHold hold;
  };

 public:
  // `places` is shared by all shards and outlives this.
  Handover(Shard& shard, Permits& places)
      : shard_(shard),
        identity_(shard.new_identity()),
        places_(places),
        queue_(shard, static_cast<std::size_t>(places.limit())) {
    for (std::uint64_t i = 0; i < places.limit(); ++i) {
      all_.push_back(std::make_unique<Place>());
      free_.push_back(all_.back().get());
    }
  }
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  std::size_t depth() const noexcept { return queue_.depth(); }
  // No more jobs are taken: workers end when the queue is empty.
  void close() noexcept { queue_.close(); }

  // Queues `job` and waits until it is done. `busy` when every place is taken, `closed` after close(), the
  // call's own error when it ended in the queue: in all three the job was never begun. `internal`: its
  // worker died over it. `job` is the caller's and stays where it is. `queued` is called when it has its
  // place. Cancel: clean in the queue; a job that was begun is waited for.
  template <class Queued>
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits for it
  Task<Result<>> ask(Job& job, Queued queued) {
    CO_TRY(Place * place, try_enter(job));
    queued();
    const Result<> waited = co_await ListWait(job.call_, job.waiters_, "work queue");
    touch();
    if (job.state_ == State::waiting) {
      // A worker may have passed over the job already; the place may be another's by now.
      if (place->job == &job) place->job = nullptr;
      co_return fail(waited.error());
    }
    // Begun: its waits have the same deadline and stop, so it is about to end.
    while (job.state_ == State::begun)
      if (!co_await ListWait(job.call_.unbounded(), job.waiters_, "work")) co_await yield(job.call_);
    if (job.state_ == State::lost) co_return fail(ErrorCode::internal, "the worker died");
    co_return Result<>{};
  }

  // A job in the hands of a worker; its asker goes on when this goes, or at done().
  class Begun {
   public:
    Begun() = default;
    Begun(Begun&& other) noexcept : from_(other.from_), job_(std::exchange(other.job_, nullptr)) {}
    Begun& operator=(Begun&& other) = delete;
    ~Begun() {
      if (job_ != nullptr) let_go(State::lost);
    }
    explicit operator bool() const noexcept { return job_ != nullptr; }
    Job& operator*() const noexcept { return *job_; }
    void done() noexcept { let_go(State::done); }

   private:
    friend class Handover;
    Begun(const Handover& from, Job& job) noexcept : from_(&from), job_(&job) { job.state_ = State::begun; }
    void let_go(HandedOver::State state) noexcept {
      from_->touch();
      Job& job = *std::exchange(job_, nullptr);
      job.state_ = state;
      while (!job.waiters_.empty()) wake(job.waiters_.front());
    }
    const Handover* from_ = nullptr;
    Job* job_ = nullptr;
  };

  // For workers: co_await arrived(call), then begin() what it gave. `closed`: there will be no more.
  auto arrived(const Call& call) { return queue_.recv(call); }
  // None when there is nothing to begin: the asker left, or is about to.
  Begun begin(Place* place) {
    touch();
    Job* job = std::exchange(place->job, nullptr);
    place->hold = PermitHold();
    free_.push_back(place);
    if (job == nullptr || job->call_.expired() || job->call_.stopped()) return {};
    return Begun(*this, *job);
  }

 private:
  using State = HandedOver::State;

  void touch() const noexcept { shard_.trace(identity_, Access::write); }

  Result<Place*> try_enter(Job& job) {
    auto hold = places_.try_hold();
    if (!hold || free_.empty()) return fail(ErrorCode::busy, "work queue is full");
    Place* place = free_.back();
    TRY_VOID(queue_.try_send(static_cast<Place*>(place)));
    free_.pop_back();
    place->job = &job;
    place->hold = std::move(*hold);
    return place;
  }

  Shard& shard_;
  std::uint64_t identity_;
  Permits& places_;
  std::vector<std::unique_ptr<Place>> all_;
  std::vector<Place*> free_;
  Mpsc<Place*> queue_;
};

}  // namespace cairn
