// Process: the real world of one program: a loop and a thread for each shard, the pool, signals.
//
// Built and torn down by one thread; between, each shard belongs to its own thread and is reached by post().
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "io/disk.h"
#include "io/entropy.h"
#include "io/loop.h"
#include "io/machine.h"
#include "io/small_file.h"
#include "io/tcp.h"

namespace cairn::io {

enum class Signal : std::uint8_t { terminate, reload };

class Process {
 public:
  explicit Process(unsigned shards);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  unsigned shards() const noexcept { return static_cast<unsigned>(nodes_.size()); }
  Machine& machine(unsigned shard) noexcept { return nodes_[shard]->machine; }
  Loop& loop(unsigned shard) noexcept { return nodes_[shard]->loop; }
  Pool& pool(unsigned shard) noexcept { return nodes_[shard]->pool; }

  // Runs `call` on a shard's thread. `busy` when its mailbox is full.
  Result<> post(unsigned shard, std::function<void()> call) {
    return loop(shard).mailbox().try_post_call(std::move(call));
  }

  // Runs every shard until stop(): shard 0 on this thread. `on_signal` is called on shard 0.
  void run(std::function<void(Signal)> on_signal);
  // From any thread: every shard leaves run() after its current turn.
  void stop();

  // Pool operations whose waiter has left, over all shards. Each shard writes its own part now and then.
  std::uint64_t orphaned() const noexcept;

  // Descriptors this process may have, raised to the hard limit on construction.
  static std::uint64_t descriptor_limit() noexcept;

 private:
  struct Node {
    Node(unsigned index, ThreadPool& threads);
    Loop loop;
    PoolPort pool;
    TcpNetwork network;
    KernelDisk disk;
    KernelEntropy entropy;
    KernelMemory memory;
    Machine machine;
  };
  ThreadPool threads_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// Facts and acts of the process that start-up code needs; never used by services.
unsigned core_count() noexcept;
WallTime wall_clock() noexcept;
[[noreturn]] void leave_now(int code) noexcept;  // without taking anything down

}  // namespace cairn::io
