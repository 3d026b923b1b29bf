// Node: one simulated machine: shards with their machines, a disk and a place in the network. Its program
// is what `boot` builds; a restart builds it again over the same disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/machine.h"
#include "io/sim/clockwork.h"
#include "io/sim/disk.h"
#include "io/sim/entropy.h"
#include "io/sim/memory.h"
#include "io/sim/network.h"
#include "io/sim/pool.h"
#include "runtime/mailbox.h"
#include "runtime/scope.h"

namespace cairn::io::sim {

class Node;
class World;
// Worlds begin on 2026-01-01: a plausible date, the same in every run.
inline constexpr WallTime epoch{1'767'225'600'000};
// Builds the node's program: listens, spawns into the node's scopes, keeps the objects that must live as long
// as those.
using Boot = std::function<void(Node&)>;

class Node {
 public:
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();

  const std::string& name() const noexcept { return name_; }
  unsigned index() const noexcept { return index_; }  // as SimNetwork counts
  unsigned shards() const noexcept { return shard_count_; }
  bool up() const noexcept { return !places_.empty(); }
  bool paused() const noexcept { return paused_; }

  SimDisk& disk() noexcept { return disk_; }
  PoolFaults pool_faults;
  // --- while up
  Machine machine(unsigned shard = 0) noexcept;
  // The root of all tasks of a shard. A task that is not below it would survive a crash, which is CHECKed.
  Scope& scope(unsigned shard = 0) noexcept { return place(shard).scope; }
  Shard& shard(unsigned index = 0) noexcept { return place(index).shard; }
  Mailbox& mailbox(unsigned shard = 0) noexcept { return place(shard).mailbox; }
  Pool& pool(unsigned shard = 0) noexcept { return place(shard).pool; }
  // Makes an object of the program. It dies after the last task, the newest first.
  template <class T, class... Args>
  T& make(Args&&... args) {
    auto object = std::make_shared<T>(std::forward<Args>(args)...);
    kept_.push_back(object);
    return *object;
  }
  // As io::Process::finish(): ends the jobs of the pool and the operations of the disk and delivers all mail,
  // before the objects that they use are destroyed. For a program that has ended by itself; not from within a
  // task.
  void finish();
  // Jobs of the pool and operations of the disk that have not completed.
  std::size_t under_way() const noexcept;
  std::size_t live_tasks() const noexcept;
  std::uint32_t lives() const noexcept { return lives_; }

 private:
  friend class World;

  struct Place {
    Place(Clockwork& clockwork, SimNetwork& network, Node& node, unsigned index);
    HashTracer tracer;
    Shard shard;
    Slab slab;
    SimEntropy entropy;
    SimMemory memory;
    NetworkPort network;
    Mailbox mailbox;
    SimPool pool;
    DiskPort disk;
    struct Traced {
      explicit Traced(Place& place) noexcept;
    } traced;  // before the scope, which asks for an identity
    Scope scope;
    std::int64_t next_timer;
    std::vector<Waiter*> drawn;  // ready waits still to run before the queue is looked at again
    std::size_t until_look = 0;

    bool ready() const noexcept { return !shard.idle() || mailbox.has_mail() || shard.next_turn_wanted(); }
  };

  Node(Clockwork& clockwork, SimNetwork& network, std::string name, unsigned shards, Boot boot);
  Place& place(unsigned shard) noexcept;
  void start();
  // Ends the node in the order of a real process (io/process.h): tasks, then the work of pool and disk, then
  // its mail, then the program.
  void tear_down();
  void run_tasks();
  void end_jobs();
  static void on_pool(void* self, std::uint64_t place, std::uint64_t what);

  Clockwork& clockwork_;
  SimNetwork& network_;
  std::string name_;
  unsigned index_;
  unsigned shard_count_;
  Boot boot_;
  SimDisk disk_;
  std::uint32_t lives_ = 0;
  std::int64_t skew_ms_ = 0;
  bool paused_ = false;
  std::unique_ptr<SimLanes> lanes_;  // of this life
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace cairn::io::sim
