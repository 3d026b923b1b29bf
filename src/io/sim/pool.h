// The simulated pool: lanes with threads and bounded queues like the real ones, shared by the shards of a
// node. A job's work runs at a moment of the seed's choosing, at once in real time, and its completion comes
// back through the mailbox some time later; the jobs that have a thread overtake each other.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "io/sim/clockwork.h"
#include "runtime/mailbox.h"
#include "runtime/pool.h"

namespace cairn::io::sim {

struct PoolFaults {
  Duration latency_min = Duration::micros(5);
  Duration latency_max = Duration::micros(100);
  std::uint32_t full = 0;  // per million: refuses although there is room
  LaneSizes lanes = sizes_of(lane_declarations);
};

class SimPool;

// The lanes of one process, shared by its shards' pools and its disk.
class SimLanes {
 public:
  // A job or disk operation that needs a thread of a lane for a while.
  class Entry : public Link {
   public:
    virtual ~Entry() { CHECK(!linked()); }
    // Called when it gets a thread, which it has until end().
    virtual void begin() = 0;
    bool urgent = false;  // as of a PoolJob

   private:
    friend class SimLanes;
    Lane lane_{};
    bool running_ = false;
  };

  SimLanes(Clockwork& clockwork, const PoolFaults& faults);
  SimLanes(const SimLanes&) = delete;
  SimLanes& operator=(const SimLanes&) = delete;

  // As Pool::try_submit; `from` is told when there may be room.
  Result<> try_enter(Lane lane, Entry& entry, SimPool& from);
  // True when it had no thread yet: it will not begin.
  bool try_leave(Entry& entry) noexcept;
  // Gives its thread back, if it has one.
  void end(Entry& entry) noexcept;
  std::uint64_t completed(Lane lane) const noexcept { return at(lane).completed; }
  void add_seat(Lane lane) noexcept { ++at(lane).seats; }
  void remove_seat(Lane lane) noexcept { --at(lane).seats; }
  void forget(SimPool& pool) noexcept;

 private:
  struct Queue {
    List<Entry> waiting;
    std::size_t depth = 0;
    std::size_t running = 0;
    std::size_t seats = 0;
    std::uint64_t completed = 0;
    std::vector<SimPool*> refused;
  };
  Queue& at(Lane lane) noexcept { return queues_[static_cast<std::size_t>(lane)]; }
  const Queue& at(Lane lane) const noexcept { return queues_[static_cast<std::size_t>(lane)]; }
  Lane lane_of(const Queue& queue) const noexcept { return static_cast<Lane>(&queue - queues_.data()); }
  const LaneSize& size_of(Lane lane) const noexcept { return faults_.lanes[static_cast<std::size_t>(lane)]; }
  void begin_next(Queue& queue) noexcept;
  void tell(Queue& queue) noexcept;

  Clockwork& clockwork_;
  const PoolFaults& faults_;
  std::array<Queue, lane_count> queues_;
};

class SimPool final : public Pool {
 public:
  // The target of the pool's events. A pool dies with its node's program, but an event's target must not.
  struct Door {
    Event::Handler handler;
    void* target;
    std::uint64_t a;
  };
  SimPool(Clockwork& clockwork, SimLanes& lanes, Mailbox& home, const PoolFaults& faults, Door door) noexcept;
  ~SimPool() override;

  Result<> try_submit(Lane lane, PoolJob& job) override;
  bool try_withdraw(Lane lane, PoolJob& job) noexcept override;
  std::uint64_t completed(Lane lane) const noexcept override { return lanes_.completed(lane); }
  void add_seat(Lane lane) override { lanes_.add_seat(lane); }
  void remove_seat(Lane lane) noexcept override { lanes_.remove_seat(lane); }
  SimLanes& lanes() noexcept { return lanes_; }
  Clockwork& clockwork() noexcept { return clockwork_; }

  // Tells the shard by mail that the lane may have room: at once, or after a delay.
  void post_room(Lane lane) noexcept;
  void post_room_later(Lane lane);
  // Handles an event that came through the door.
  void turn(std::uint64_t what);
  // Completes all running jobs now. Queued jobs are withdrawn by their waiters.
  void hurry();

 private:
  enum What : std::uint64_t { to_start, to_complete, to_tell };  // to_tell + the lane's number
  struct Running final : SimLanes::Entry {
    Running(SimPool& of, PoolJob& what) noexcept : pool(of), job(what) { urgent = what.urgent; }
    void begin() override { pool.begin(*this); }
    SimPool& pool;
    PoolJob& job;
    bool begun = false;
  };
  struct RoomMail : MailItem {
    SimPool* pool = nullptr;
    Lane lane{};
    bool posted = false;
  };
  void begin(Running& running);
  void finish(std::size_t index);
  Duration delay() { return clockwork_.span(faults_.latency_min, faults_.latency_max, "pool.latency"); }
  void schedule(std::uint64_t what) { clockwork_.after(delay(), door_.handler, door_.target, door_.a, what); }

  Clockwork& clockwork_;
  SimLanes& lanes_;
  Mailbox& home_;
  const PoolFaults& faults_;
  Door door_;
  std::vector<std::unique_ptr<Running>> jobs_of_lanes_;
  std::vector<Running*> starting_;  // have a thread, but have not begun to work
  std::vector<Running*> working_;
  std::array<RoomMail, lane_count> mails_;
};

}  // namespace cairn::io::sim
