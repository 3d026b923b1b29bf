#include "io/watchdog.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cairn::io {
namespace {

// How long before the end the watchdog wakes the shards, how long before it reports what hangs, and how long
// it waits for that report to be written.
constexpr Duration look_ahead = Duration::millis(250);
constexpr Duration tell_ahead = Duration::millis(120);
constexpr Duration written_within = Duration::millis(60);

sigset_t watched_signals() noexcept {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  return set;
}

Instant now() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return {t.tv_sec * 1'000'000'000 + t.tv_nsec};
}

void nap(Duration span) noexcept {
  const timespec t{span.ns / 1'000'000'000, span.ns % 1'000'000'000};
  nanosleep(&t, nullptr);
}

int open_signals() noexcept {
  const sigset_t set = watched_signals();
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

}  // namespace

void leave_now(int code) noexcept { _exit(code); }

void Watchdog::block_signals() noexcept {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Watchdog::Watchdog(WatchdogDuty duty)
    : duty_(std::move(duty)), signals_(open_signals()), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  CHECK(signals_ >= 0 && wake_ >= 0);
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  stopping_.store(true, std::memory_order_relaxed);
  leave_by(Instant::never());
  thread_.join();
  close(signals_);
  close(wake_);
}

void Watchdog::arm(Duration patience) noexcept { leave_by(now() + patience + grace); }

void Watchdog::leave_by(Instant instant) noexcept {
  std::int64_t known = leave_at_.load(std::memory_order_relaxed);
  while (instant.ns < known &&
         !leave_at_.compare_exchange_weak(known, instant.ns, std::memory_order_relaxed)) {
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_, &one, sizeof one);
}

void Watchdog::hear() {
  signalfd_siginfo info{};
  while (read(signals_, &info, sizeof info) == sizeof info) {
    const Instant came = now();
    if (info.ssi_signo == SIGHUP) {
      duty_.heard(Signal::reload, came);
      continue;
    }
    if (duty_.patience)
      leave_by(came + (std::exchange(terminated_, true) ? Duration{} : duty_.patience()) + grace);
    duty_.heard(Signal::terminate, came);
  }
}

void Watchdog::run() {
  bool looked = false;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant leaves{leave_at_.load(std::memory_order_relaxed)};
    const Instant due = leaves == Instant::never() ? leaves
                        : looked                   ? Instant{leaves.ns - tell_ahead.ns}
                                                   : Instant{leaves.ns - look_ahead.ns};
    const Instant at = now();
    if (due <= at) {
      if (looked || leaves.ns - tell_ahead.ns <= at.ns) leave();
      looked = true;
      if (duty_.look) duty_.look();
      continue;
    }
    const std::int64_t wait =
        due == Instant::never() ? -1 : std::min<std::int64_t>((due - at).ns / 1'000'000 + 1, 60'000);
    pollfd watched[]{{.fd = signals_, .events = POLLIN, .revents = 0},
                     {.fd = wake_, .events = POLLIN, .revents = 0}};
    if (poll(watched, 2, static_cast<int>(wait)) <= 0) continue;
    std::uint64_t ignored = 0;
    if (watched[1].revents != 0) (void)!read(wake_, &ignored, sizeof ignored);
    if (watched[0].revents != 0) hear();
  }
}

void Watchdog::leave() {
  if (duty_.tell) duty_.tell();
  const Instant until = now() + written_within;
  while (duty_.told && !duty_.told() && now() < until) nap(Duration::millis(1));
  leave_now(duty_.code);
}

}  // namespace cairn::io
