// Process: the real world of one program: a loop and a thread for each shard, the pool, signals.
//
// Built and torn down by one thread; between, each shard belongs to its own thread and is reached by post().
//   [PR-1] After finish() no job runs and no mail waits, so the objects that they use may be destroyed.
//   [PR-2] stop() needs neither a turn of a shard nor room in its mailbox.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/disk.h"
#include "io/entropy.h"
#include "io/loop.h"
#include "io/machine.h"
#include "io/small_file.h"
#include "io/tcp.h"
#include "io/watchdog.h"

namespace cairn::io {

// How a process ends that was told to end and hangs. Called on the watchdog's thread.
struct LastResort {
  std::function<Duration()> patience;  // how long it may take after the first signal to terminate
  std::function<void(const std::vector<std::string>&)> tell;  // reports the names of what hangs
  std::function<bool()> told;                                 // whether that report has been written out
  int code = 10;
};

class Process {
 public:
  explicit Process(unsigned shards, const LaneSizes& lanes = sizes_of(lane_declarations));
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

  // Runs every shard until stop(): shard 0 on this thread. `on_signal` is called on shard 0, with the time
  // the signal came. The last resort is in force from here until the Process is destroyed. Without one the
  // process may take for ever to end.
  using OnSignal = std::function<void(Signal signal, Instant came)>;
  void run(OnSignal on_signal, LastResort last_resort = {});
  // From any thread: every shard leaves run() after its current turn.
  void stop() noexcept;
  // Waits for the pool's jobs and delivers all mail. Call it after run(), before destroying anything that a
  // job or a piece of mail may use. The destructor calls it too.
  void finish();
  // From any thread, during run(): as if a signal had come.
  void end_within(Duration patience) noexcept;

  // Pool operations whose waiter has left, over all shards. Each shard writes its own part now and then.
  std::uint64_t orphaned() const noexcept;

  // Descriptors this process may have, raised to the hard limit on construction.
  static std::uint64_t descriptor_limit() noexcept;

 private:
  // Signals on their way from the watchdog to shard 0.
  struct SignalMail : MailItem {
    Process* process = nullptr;
    std::atomic<bool> posted{false};
    std::atomic<unsigned> terminates{0}, reloads{0};
    std::atomic<std::int64_t> came_ns{0};  // the first to terminate
  };
  void hear(Signal signal, Instant came) noexcept;
  void deliver_signals();
  void look() noexcept;
  std::vector<std::string> hanging() const;

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
  OnSignal on_signal_;  // of shard 0
  SignalMail signal_mail_;
  std::vector<std::uint64_t> turns_seen_;  // by shard, at the watchdog's look
  std::optional<Watchdog> watchdog_;
  bool finished_ = false;
};

// Facts and acts of the process that start-up code needs; never used by services.
unsigned core_count() noexcept;
WallTime wall_clock() noexcept;
}  // namespace cairn::io
