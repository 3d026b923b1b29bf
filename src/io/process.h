// Process: the real world of one program: a loop and a thread for each shard, the pool, signals.
//
// Built and torn down by one thread; between, each shard belongs to its own thread and is reached by post().
//   [PR-1] After finish() no job runs and no mail waits: what they use may go.
//   [PR-2] stop() needs nothing of a shard, neither a turn nor room in its mailbox.
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

// What becomes of a process that was told to end and does not. Called on the watchdog's thread.
struct LastResort {
  std::function<Duration()> patience;                         // after the first signal to terminate
  std::function<void(const std::vector<std::string>&)> tell;  // what hangs
  std::function<bool()> told;                                 // that has been written out
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
  // the signal came. The last resort holds from here until the process is destroyed; none: it may take for
  // ever.
  using OnSignal = std::function<void(Signal signal, Instant came)>;
  void run(OnSignal on_signal, LastResort last_resort = {});
  // From any thread: every shard leaves run() after its current turn.
  void stop() noexcept;
  // After run(), before anything goes that a job of the pool or a piece of mail may use: waits for what the
  // pool runs, and delivers all mail. The destructor does it too.
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
  std::vector<std::uint64_t> turns_seen_;  // of the watchdog: by shard, when it looked
  std::optional<Watchdog> watchdog_;
  bool finished_ = false;
};

// Facts and acts of the process that start-up code needs; never used by services.
unsigned core_count() noexcept;
WallTime wall_clock() noexcept;
}  // namespace cairn::io
