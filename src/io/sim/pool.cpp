#include "io/sim/pool.h"

namespace cairn::io::sim {

Result<> SimPool::try_submit(Lane lane, PoolJob& job) {
  Queue& queue = lanes_[static_cast<std::size_t>(lane)];
  if (queue.depth >= faults_.queue || clockwork_.chance(faults_.full, "pool.full")) {
    clockwork_.probes.hit("pool.full");
    return fail(ErrorCode::busy, "pool");
  }
  queue.jobs.push_back(job);
  ++queue.depth;
  clockwork_.after(delay(), door_.handler, door_.target, door_.a, static_cast<std::uint64_t>(lane));
  return {};
}

bool SimPool::try_withdraw(Lane lane, PoolJob& job) noexcept {
  if (!job.linked()) return false;
  job.unlink();
  --lanes_[static_cast<std::size_t>(lane)].depth;
  return true;
}

void SimPool::turn(std::uint64_t b) {
  if (b == lane_count) {
    if (!working_.empty())
      finish(clockwork_.choices.pick(static_cast<std::uint32_t>(working_.size()), "pool.finish"));
    return;
  }
  Queue& queue = lanes_[b];
  if (queue.jobs.empty()) return;  // withdrawn
  PoolJob& job = queue.jobs.pop_front();
  --queue.depth;
  job.work();
  working_.push_back(&job);
  clockwork_.after(delay(), door_.handler, door_.target, door_.a, lane_count);
}

void SimPool::finish(std::size_t index) {
  PoolJob* job = working_[index];
  working_.erase(working_.begin() + static_cast<std::ptrdiff_t>(index));
  home_.post(*job);
}

void SimPool::hurry() {
  while (!working_.empty()) finish(0);
}

}  // namespace cairn::io::sim
