#include "io/sim/pool.h"

#include <algorithm>
#include <utility>

namespace cairn::io::sim {

// --- lanes

SimLanes::SimLanes(Clockwork& clockwork, const PoolFaults& faults) : clockwork_(clockwork), faults_(faults) {
  clockwork_.probes.declare(
      {"pool.full", "pool.commit_refused", "pool.room_told", "pool.queued", "pool.withdrawn"});
}

Result<> SimLanes::try_enter(Lane lane, Entry& entry, SimPool& from) {
  Queue& queue = at(lane);
  const bool lie = clockwork_.chance(faults_.full, "pool.full");
  if (lie || queue.depth >= size_of(lane).queue) {
    clockwork_.probes.hit("pool.full");
    if (lane == Lane::commit) clockwork_.probes.hit("pool.commit_refused");
    if (lie)
      from.post_room_later(lane);
    else if (std::find(queue.refused.begin(), queue.refused.end(), &from) == queue.refused.end())
      queue.refused.push_back(&from);
    return fail(ErrorCode::busy, "pool");
  }
  entry.lane_ = lane;
  entry.running_ = false;
  if (entry.urgent)
    queue.waiting.push_front(entry);
  else
    queue.waiting.push_back(entry);
  ++queue.depth;
  begin_next(queue);
  if (!entry.running_) clockwork_.probes.hit("pool.queued");
  return {};
}

bool SimLanes::try_leave(Entry& entry) noexcept {
  if (!entry.linked()) return false;
  clockwork_.probes.hit("pool.withdrawn");
  entry.unlink();
  --at(entry.lane_).depth;
  tell(at(entry.lane_));
  return true;
}

void SimLanes::end(Entry& entry) noexcept {
  if (!std::exchange(entry.running_, false)) return;
  Queue& queue = at(entry.lane_);
  --queue.running;
  ++queue.completed;
  begin_next(queue);
}

void SimLanes::begin_next(Queue& queue) noexcept {
  const std::size_t threads = std::max<std::size_t>(size_of(lane_of(queue)).threads, queue.seats);
  while (!queue.waiting.empty() && queue.running < threads) {
    Entry& next = queue.waiting.pop_front();
    --queue.depth;
    ++queue.running;
    next.running_ = true;
    tell(queue);
    next.begin();
  }
}

void SimLanes::tell(Queue& queue) noexcept {
  if (queue.refused.empty()) return;
  SimPool* first = queue.refused.front();
  queue.refused.erase(queue.refused.begin());
  first->post_room(lane_of(queue));
}

void SimLanes::forget(SimPool& pool) noexcept {
  for (Queue& queue : queues_) std::erase(queue.refused, &pool);
}

// --- one shard's pool

SimPool::SimPool(Clockwork& clockwork, SimLanes& lanes, Mailbox& home, const PoolFaults& faults,
                 Door door) noexcept
    : clockwork_(clockwork), lanes_(lanes), home_(home), faults_(faults), door_(door) {
  for (std::size_t i = 0; i < lane_count; ++i) {
    mails_[i].pool = this;
    mails_[i].lane = static_cast<Lane>(i);
    mails_[i].deliver = [](MailItem& item) {
      auto& self = static_cast<RoomMail&>(item);
      self.posted = false;
      if (!self.pool->room(self.lane).waiting.empty()) self.pool->clockwork_.probes.hit("pool.room_told");
      self.pool->tell_room(self.lane);
    };
  }
}

SimPool::~SimPool() {
  CHECK(jobs_of_lanes_.empty());
  lanes_.forget(*this);
}

Result<> SimPool::try_submit(Lane lane, PoolJob& job) {
  auto running = std::make_unique<Running>(*this, job);
  Running& entry = *running;
  jobs_of_lanes_.push_back(std::move(running));
  auto entered = lanes_.try_enter(lane, entry, *this);
  if (!entered) jobs_of_lanes_.pop_back();
  return entered;
}

bool SimPool::try_withdraw(Lane, PoolJob& job) noexcept {
  const auto mine = std::find_if(jobs_of_lanes_.begin(), jobs_of_lanes_.end(),
                                 [&](const auto& one) { return &one->job == &job; });
  if (mine == jobs_of_lanes_.end() || (*mine)->begun) return false;
  if (!lanes_.try_leave(**mine)) {
    std::erase(starting_, mine->get());
    clockwork_.probes.hit("pool.withdrawn");
    lanes_.end(**mine);
  }
  jobs_of_lanes_.erase(mine);
  return true;
}

void SimPool::begin(Running& running) {
  starting_.push_back(&running);
  schedule(What::to_start);
}

void SimPool::turn(std::uint64_t what) {
  if (what >= What::to_tell) return post_room(static_cast<Lane>(what - What::to_tell));
  if (what == What::to_complete) {
    if (!working_.empty())
      finish(clockwork_.choices.pick(static_cast<std::uint32_t>(working_.size()), "pool.finish"));
    return;
  }
  if (starting_.empty()) return;  // the job was withdrawn
  Running* running = starting_.front();
  starting_.erase(starting_.begin());
  running->begun = true;
  running->job.work();
  working_.push_back(running);
  schedule(What::to_complete);
}

void SimPool::finish(std::size_t index) {
  Running* running = working_[index];
  working_.erase(working_.begin() + static_cast<std::ptrdiff_t>(index));
  PoolJob& job = running->job;
  lanes_.end(*running);
  std::erase_if(jobs_of_lanes_, [&](const auto& one) { return one.get() == running; });
  home_.post(job);
}

void SimPool::hurry() {
  while (!working_.empty()) finish(0);
}

void SimPool::post_room(Lane lane) noexcept {
  RoomMail& mail = mails_[static_cast<std::size_t>(lane)];
  if (!std::exchange(mail.posted, true)) home_.post(mail);
}

void SimPool::post_room_later(Lane lane) { schedule(What::to_tell + static_cast<std::uint64_t>(lane)); }

}  // namespace cairn::io::sim
