#include "runtime/pool.h"

#include <sys/resource.h>

#include <algorithm>

namespace cairn {
namespace {

constexpr int less_priority = 10;  // a ninth of the share of the others

}  // namespace

ThreadPool::ThreadPool(const LaneSizes& sizes) {
  for (std::size_t i = 0; i < lane_count; ++i) {
    CHECK(sizes[i].queue > 0);
    lanes_[i].size = sizes[i];
  }
  at(Lane::cpu).leaves_cores = true;
}

ThreadPool::~ThreadPool() {
  for (LaneState& lane : lanes_) lane.state.with([](const State& state) { CHECK(state.threads.empty()); });
}

void ThreadPool::start() {
  for (LaneState& lane : lanes_)
    lane.state.with([&](State& state) {
      CHECK(state.threads.empty());
      state.open = true;
      state.stopping = false;
      const std::size_t count = std::max<std::size_t>(lane.size.threads, state.seats);
      while (state.threads.size() < count) add_thread(lane, state);
    });
}

void ThreadPool::add_thread(LaneState& lane, State& state) {
  state.threads.emplace_back([&lane] { serve(lane); });
}

void ThreadPool::add_seat(Lane lane) {
  LaneState& to = at(lane);
  to.state.with([&](State& state) {
    if (++state.seats > state.threads.size() && state.open) add_thread(to, state);
  });
}

// The thread stays: a later seat will need it.
void ThreadPool::remove_seat(Lane lane) noexcept {
  at(lane).state.with([](State& state) {
    CHECK(state.seats > 0);
    --state.seats;
  });
}

void ThreadPool::stop() {
  for (LaneState& lane : lanes_) {
    lane.state.with([](State& state) {
      state.open = false;
      state.stopping = true;
    });
    lane.changed.notify_all();
  }
  for (LaneState& lane : lanes_)
    for (std::thread& thread : lane.state.with([](State& state) { return std::exchange(state.threads, {}); }))
      thread.join();
}

std::size_t ThreadPool::queued(Lane lane) const noexcept {
  return lanes_[static_cast<std::size_t>(lane)].state.with([](const State& state) { return state.depth; });
}

std::size_t ThreadPool::working(Lane lane) const noexcept {
  return at(lane).working.load(std::memory_order_relaxed);
}

std::size_t ThreadPool::threads(Lane lane) const noexcept {
  return at(lane).state.with([](const State& state) { return state.threads.size(); });
}

Result<> ThreadPool::try_submit(Lane lane, PoolJob& job, RoomMail& mail) {
  LaneState& to = at(lane);
  const ErrorCode outcome = to.state.with([&](State& state) {
    if (!state.open) return ErrorCode::closed;
    if (state.depth >= to.size.queue) {
      // A shard that was told and has not tried yet will try after this.
      if (!mail.linked() && !mail.told) state.refused.push_back(mail);
      return ErrorCode::busy;
    }
    if (job.urgent)
      state.jobs.push_front(job);
    else
      state.jobs.push_back(job);
    ++state.depth;
    return ErrorCode::ok;
  });
  if (outcome != ErrorCode::ok) return fail(outcome, "pool");
  to.changed.notify_one();
  return {};
}

// The next shard to tell that the lane has room, of those that it refused. Null: there is none.
ThreadPool::RoomMail* ThreadPool::take_refused(State& state) noexcept {
  if (state.refused.empty()) return nullptr;
  RoomMail& first = state.refused.pop_front();
  first.told = true;
  return &first;
}

bool ThreadPool::try_withdraw(Lane lane, PoolJob& job) noexcept {
  RoomMail* told = nullptr;
  const bool taken = at(lane).state.with([&](State& state) {
    if (!job.linked()) return false;
    job.unlink();
    --state.depth;
    told = take_refused(state);
    return true;
  });
  if (told != nullptr) told->home->post(*told);
  return taken;
}

ThreadPool::Taken ThreadPool::take(State& state) noexcept {
  if (state.jobs.empty()) return {};
  --state.depth;
  return {&state.jobs.pop_front(), take_refused(state)};
}

PoolJob* ThreadPool::try_take(Lane lane) noexcept {
  const Taken taken = at(lane).state.with([](State& state) { return take(state); });
  if (taken.told != nullptr) taken.told->home->post(*taken.told);
  return taken.job;
}

void ThreadPool::finish(LaneState& lane, PoolJob& job) noexcept {
  lane.completed.fetch_add(1, std::memory_order_relaxed);
  job.home_->post(job);  // the job belongs to its shard again
}

void ThreadPool::serve(LaneState& lane) {
  // On Linux this changes this thread alone. Where the system refuses it, the lane works at normal priority.
  if (lane.leaves_cores) (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + less_priority);
  for (;;) {
    const Taken taken = lane.state.wait(
        lane.changed, [](State& state) { return !state.jobs.empty() || state.stopping; }, take);
    if (taken.job == nullptr) return;
    if (taken.told != nullptr) taken.told->home->post(*taken.told);
    lane.working.fetch_add(1, std::memory_order_relaxed);
    taken.job->work();
    lane.working.fetch_sub(1, std::memory_order_relaxed);
    finish(lane, *taken.job);
  }
}

PoolPort::PoolPort(ThreadPool& threads, Mailbox& home) noexcept : threads_(threads), home_(home) {
  for (std::size_t i = 0; i < lane_count; ++i) {
    ThreadPool::RoomMail& mail = mails_[i];
    mail.home = &home;
    mail.pool = this;
    mail.lane = static_cast<Lane>(i);
    mail.deliver = [](MailItem& item) {
      auto& self = static_cast<ThreadPool::RoomMail&>(item);
      self.told = false;
      self.pool->tell_room(self.lane);
    };
  }
}

PoolPort::~PoolPort() {
  for (ThreadPool::RoomMail& mail : mails_)
    threads_.at(mail.lane).state.with([&mail](ThreadPool::State&) {
      if (mail.linked()) mail.unlink();
      CHECK(!mail.told);  // it is in the mailbox, which was drained
    });
}

Result<> PoolPort::try_submit(Lane lane, PoolJob& job) {
  job.home_ = &home_;
  return threads_.try_submit(lane, job, mails_[static_cast<std::size_t>(lane)]);
}

std::uint64_t PoolPort::completed(Lane lane) const noexcept {
  return threads_.at(lane).completed.load(std::memory_order_relaxed);
}

LaneWatch::LaneWatch(const Pool& pool, const Call& call, Lane lane) noexcept
    : pool_(pool),
      call_(call),
      use_(call.lanes()),
      lane_(lane),
      begin_by_(Instant::never()),
      seen_(use_ == nullptr ? 0 : pool.completed(lane)) {
  if (use_ != nullptr && !use_->begun && use_->begin_within.ns > 0)
    begin_by_ = current_shard()->now() + use_->begin_within;
}

Call LaneWatch::span() const noexcept {
  if (use_ == nullptr) return call_;
  const Call call = call_.by(begin_by_);
  return use_->stall.ns > 0 ? call.within(use_->stall) : call;
}

bool LaneWatch::is_late() const noexcept { return current_shard()->now() >= begin_by_; }

bool LaneWatch::goes_on(const Result<>& waited) noexcept {
  if (waited || waited.error().code != ErrorCode::timeout || use_ == nullptr || call_.expired() || is_late())
    return false;
  return std::exchange(seen_, pool_.completed(lane_)) != seen_;
}

bool LaneWatch::goes_on_running(const Result<>& waited) noexcept {
  if (waited || waited.error().code != ErrorCode::timeout || call_.expired() || !is_late()) return false;
  begin_by_ = Instant::never();
  return true;
}

Error LaneWatch::refusal(const Error& ended) const noexcept {
  if (ended.code != ErrorCode::timeout || call_.expired() || !is_late()) return ended;
  return {ErrorCode::busy, "too many wait for the disk"};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<>> wait_for_room(Pool& pool, LaneWatch& watch, Lane lane, PoolJob& job) {
  Pool::Room& room = pool.room(lane);
  Result<> entered = fail(ErrorCode::busy, "pool");
  bool first = watch.urgent();
  while (!entered && entered.error().code == ErrorCode::busy) {
    const Result<> waited = co_await RoomWait(watch.span(), room, first);
    first = true;
    if (watch.goes_on(waited)) continue;
    entered = waited ? pool.try_submit(lane, job) : waited;
  }
  // However this job fared, the next waiter may get in.
  pool.tell_room(lane);
  co_return entered;
}

}  // namespace cairn
