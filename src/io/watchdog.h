// Watchdog: the thread that hears the signals, and that leaves when the process does not end by itself. It
// does nothing else: it runs no task, asks no disk and waits for no shard.
//   [WD-1] Once armed, the process has left by the given instant, with the given code, whatever shards, pool
//   and
//         log do. One thing is beyond it: a thread in an uninterruptible sleep of the kernel keeps the
//         process in the table until the kernel lets it go.
//   [WD-2] It is armed by the first signal to terminate, whether a shard hears of that or not; the second
//   brings
//         the instant nearer. Nothing moves it away again.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "base/units.h"

namespace cairn::io {

enum class Signal : std::uint8_t { terminate, reload };

// What the watchdog does. All of it is called on its thread, and must not block.
struct WatchdogDuty {
  // Of each signal, with the time it came.
  std::function<void(Signal signal, Instant came)> heard;
  // How long the process may take to end by itself after the first signal. Never, where it may take for ever.
  std::function<Duration()> patience = {};
  // A moment before it leaves: whoever hangs may be asked to show that it does not.
  std::function<void()> look = {};
  // Right before it leaves: says what hangs.
  std::function<void()> tell = {};
  // True when what was said has been written out. It is waited for, but not for long.
  std::function<bool()> told = {};
  int code = 10;
};

class Watchdog {
 public:
  // From the end of the patience, or from the second signal, to the end of the process.
  static constexpr Duration grace = Duration::seconds(1);

  // Blocks the signals in this thread and in those it starts from now on: they are this watchdog's to hear.
  static void block_signals() noexcept;

  explicit Watchdog(WatchdogDuty duty);
  ~Watchdog();  // it watches no longer; the process may still be ending
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From any thread, as if a signal had come: the process ends by itself within `patience`, or is left.
  void arm(Duration patience) noexcept;

 private:
  void run();
  void hear();
  void leave_by(Instant instant) noexcept;
  [[noreturn]] void leave();

  WatchdogDuty duty_;
  int signals_, wake_;
  bool terminated_ = false;                                  // of the thread
  std::atomic<std::int64_t> leave_at_{Instant::never().ns};  // publishes nothing else
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

[[noreturn]] void leave_now(int code) noexcept;  // without taking anything down

}  // namespace cairn::io
