// Loop: the real driver of one shard: epoll, eventfd and the monotonic clock.
//
// One turn: run what is ready, wait for events no longer than the next timer allows, read the clock once,
// signal readiness, take the mail. Events only mark streams ready; tasks run afterwards, so no stream can
// die while the batch that names it is being read.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.h"
#include "runtime/buffer.h"
#include "runtime/mailbox.h"
#include "runtime/shard.h"

namespace cairn::io {

// Receives the epoll events of a registered descriptor.
class Pollable {
 public:
  virtual void on_events(std::uint32_t events) noexcept = 0;

 protected:
  ~Pollable() = default;
};

class Loop {
 public:
  explicit Loop(unsigned index);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Shard& shard() noexcept { return shard_; }
  const Shard& shard() const noexcept { return shard_; }
  Slab& slab() noexcept { return slab_; }
  Mailbox& mailbox() noexcept { return mailbox_; }

  // Edge-triggered for both directions; the registration ends when the descriptor is closed.
  Result<> watch(int descriptor, Pollable& owner) noexcept;

  // Runs turns on this thread until stop().
  void run();
  // From any thread: run() ends after its current turn, and a run() that has not begun yet ends at once. It
  // needs no place in the mailbox, which may be full.
  void stop() noexcept;
  // From any thread: a turn begins soon.
  void wake() noexcept;
  // One turn, waiting at most `longest`: for set-up code and tests.
  void turn(Duration longest);

  // Turns that ran tasks for more than 10 ms in one go. Written by this thread only.
  std::uint64_t stalls() const noexcept { return stalls_.load(std::memory_order_relaxed); }
  // Turns that have ended. Written by this thread only.
  std::uint64_t turns() const noexcept { return turns_.load(std::memory_order_relaxed); }
  bool running() const noexcept { return running_.load(std::memory_order_relaxed); }

 private:
  void read_clock() noexcept;
  void run_ready();

  Shard shard_;
  Slab slab_;
  int epoll_;
  int wake_;
  Mailbox mailbox_;
  std::atomic<bool> stopping_{false}, running_{false};  // publish no other memory
  std::atomic<std::uint64_t> stalls_{0}, turns_{0};
  Instant next_look_at_wall_{};
};

}  // namespace cairn::io
