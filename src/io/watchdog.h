// Watchdog: the thread that receives the signals, and that ends the process when the process does not end by
// itself. It does nothing else: it runs no task, uses no disk and waits for no shard.
//   [WD-1] Once armed, the process exits by the given instant, with the given code, whatever shards, pool and
//         log do. The one exception: a thread in an uninterruptible sleep of the kernel keeps the process in
//         the table until the kernel lets it go.
//   [WD-2] The first signal to terminate arms it, whether a shard hears of that signal or not; the second
//         brings the instant nearer. Nothing moves the instant away again.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "base/units.h"

namespace cairn::io {

enum class Signal : std::uint8_t { terminate, reload };

// The watchdog's callbacks. They run on its thread and must not block.
struct WatchdogDuty {
  // Called for each signal, with the time it came.
  std::function<void(Signal signal, Instant came)> heard;
  // How long the process may take to end by itself after the first signal. Unset: for ever.
  std::function<Duration()> patience = {};
  // Called a moment before the end: wakes the shards, so that a shard that does not hang can show it.
  std::function<void()> look = {};
  // Called right before the end: reports what hangs.
  std::function<void()> tell = {};
  // Whether that report has been written out. The watchdog waits for it, but not for long.
  std::function<bool()> told = {};
  int code = 10;
};

class Watchdog {
 public:
  // From the end of the patience, or from the second signal, to the end of the process.
  static constexpr Duration grace = Duration::seconds(1);

  // Blocks the signals in this thread and in those it starts from now on: only the watchdog receives them.
  static void block_signals() noexcept;

  explicit Watchdog(WatchdogDuty duty);
  ~Watchdog();  // stops watching, even while the process still ends
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From any thread, as if a signal had come: the process ends by itself within `patience`, or the watchdog
  // ends it.
  void arm(Duration patience) noexcept;

 private:
  void run();
  void hear();
  void leave_by(Instant instant) noexcept;
  [[noreturn]] void leave();

  WatchdogDuty duty_;
  int signals_, wake_;
  bool terminated_ = false;                                  // used by the thread alone
  std::atomic<std::int64_t> leave_at_{Instant::never().ns};  // publishes no other memory
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

[[noreturn]] void leave_now(int code) noexcept;  // exits at once, runs no destructor

}  // namespace cairn::io
