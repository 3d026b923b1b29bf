#include "runtime/pool.h"

#include <sys/resource.h>

namespace cairn {
namespace {

constexpr int less_priority = 10;  // a ninth of the share of the others

}  // namespace

const char* name_of(Lane lane) noexcept {
  constexpr std::array<const char*, lane_count> names{"read", "commit", "cpu", "dns"};
  return names[static_cast<std::size_t>(lane)];
}

ThreadPool::ThreadPool(const LaneSizes& sizes) {
  for (std::size_t i = 0; i < lane_count; ++i) {
    CHECK(sizes[i].threads > 0 && sizes[i].queue > 0);
    lanes_[i].size = sizes[i];
  }
}

ThreadPool::~ThreadPool() {
  for (LaneState& lane : lanes_) CHECK(lane.threads.empty());
}

void ThreadPool::start() {
  for (LaneState& lane : lanes_) {
    CHECK(lane.threads.empty());
    lane.state.with([](State& state) {
      state.open = true;
      state.stopping = false;
    });
    const bool yields = &lane == &at(Lane::cpu);
    for (unsigned i = 0; i < lane.size.threads; ++i)
      lane.threads.emplace_back([&lane, yields] { serve(lane, yields); });
  }
}

void ThreadPool::stop() {
  for (LaneState& lane : lanes_) {
    lane.state.with([](State& state) {
      state.open = false;
      state.stopping = true;
    });
    lane.changed.notify_all();
  }
  for (LaneState& lane : lanes_) {
    for (std::thread& thread : lane.threads) thread.join();
    lane.threads.clear();
  }
}

std::size_t ThreadPool::queued(Lane lane) const noexcept {
  return lanes_[static_cast<std::size_t>(lane)].state.with([](const State& state) { return state.depth; });
}

std::size_t ThreadPool::working(Lane lane) const noexcept {
  return lanes_[static_cast<std::size_t>(lane)].working.load(std::memory_order_relaxed);
}

Result<> ThreadPool::try_submit(Lane lane, PoolJob& job) {
  LaneState& to = at(lane);
  const ErrorCode outcome = to.state.with([&](State& state) {
    if (!state.open) return ErrorCode::closed;
    if (state.depth >= to.size.queue) return ErrorCode::busy;
    state.jobs.push_back(job);
    ++state.depth;
    return ErrorCode::ok;
  });
  if (outcome != ErrorCode::ok) return fail(outcome, "pool");
  to.changed.notify_one();
  return {};
}

bool ThreadPool::try_withdraw(Lane lane, PoolJob& job) noexcept {
  return at(lane).state.with([&](State& state) {
    if (!job.linked()) return false;
    job.unlink();
    --state.depth;
    return true;
  });
}

void ThreadPool::serve(LaneState& lane, bool leave_cores_to_others) {
  // Of this thread alone, on Linux. Where it is refused, the work is done all the same.
  if (leave_cores_to_others) (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + less_priority);
  const auto next = [&]() -> PoolJob* {
    return lane.state.wait(
        lane.changed, [](State& state) { return !state.jobs.empty() || state.stopping; },
        [](State& state) -> PoolJob* {
          if (state.jobs.empty()) return nullptr;
          --state.depth;
          return &state.jobs.pop_front();
        });
  };
  while (PoolJob* job = next()) {
    Mailbox* home = job->home_;
    lane.working.fetch_add(1, std::memory_order_relaxed);
    job->work();
    lane.working.fetch_sub(1, std::memory_order_relaxed);
    home->post(*job);  // the job belongs to its shard again
  }
}

Result<> PoolPort::try_submit(Lane lane, PoolJob& job) {
  job.home_ = &home_;
  return threads_.try_submit(lane, job);
}

}  // namespace cairn
