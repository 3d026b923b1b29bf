#include "io/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "io/entropy.h"

namespace cairn::io {
namespace {

constexpr Duration stall = Duration::millis(10);

Instant monotonic_now() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return {t.tv_sec * 1'000'000'000 + t.tv_nsec};
}

std::int64_t wall_offset_ms(Instant now) noexcept {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1'000'000 - now.ns / 1'000'000;
}

}  // namespace

Loop::Loop(unsigned index)
    : shard_(index, random_seed()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      mailbox_([this] { wake(); }) {
  CHECK(epoll_ >= 0 && wake_ >= 0);
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = nullptr}};
  CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) == 0);
  read_clock();
  shard_.set_clock(monotonic_now);
  shard_.set_turns();
  shard_.set_wall_offset(wall_offset_ms(shard_.now()));
}

Loop::~Loop() {
  close(wake_);
  close(epoll_);
}

Result<> Loop::watch(int descriptor, Pollable& owner) noexcept {
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = &owner}};
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) return fail(ErrorCode::io_failed, "epoll");
  return {};
}

void Loop::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_, &one, sizeof one);  // full means already awake
}

void Loop::stop() noexcept {
  stopping_.store(true, std::memory_order_relaxed);
  wake();
}

void Loop::read_clock() noexcept { shard_.set_now(monotonic_now()); }

void Loop::run_ready() {
  constexpr int steps_per_look = 64;
  constexpr int looks_per_turn = 16;
  Instant before = shard_.now();
  for (int look = 0; look < looks_per_turn && !shard_.idle(); ++look) {
    for (int i = 0; i < steps_per_look && !shard_.idle(); ++i) shard_.run_one();
    const Instant after = monotonic_now();
    if (after - before > stall) stalls_.store(stalls() + 1, std::memory_order_relaxed);
    before = after;
  }
  shard_.set_now(before);
}

void Loop::turn(Duration longest) {
  run_ready();
  int timeout = 0;
  if (shard_.idle() && !shard_.next_turn_wanted()) {
    const Instant due = std::min(shard_.timers().next_due(), shard_.now() + longest);
    const std::int64_t ns = std::max<std::int64_t>(0, (due - shard_.now()).ns);
    timeout = static_cast<int>((ns + 999'999) / 1'000'000);
  }
  if (timeout > 0 && !mailbox_.arm()) timeout = 0;
  std::array<epoll_event, 256> events;
  const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout);
  shard_.advance(monotonic_now());
  // The wall clock may be set while we run; a second-old offset is fine for a Date.
  if (shard_.now() >= next_look_at_wall_) {
    shard_.set_wall_offset(wall_offset_ms(monotonic_now()));
    next_look_at_wall_ = shard_.now() + Duration::seconds(1);
  }
  for (int i = 0; i < count; ++i) {
    if (auto* owner = static_cast<Pollable*>(events[static_cast<std::size_t>(i)].data.ptr)) {
      owner->on_events(events[static_cast<std::size_t>(i)].events);
      continue;
    }
    std::uint64_t ignored = 0;
    [[maybe_unused]] ssize_t got = read(wake_, &ignored, sizeof ignored);
  }
  ShardScope here(shard_);
  mailbox_.drain();
  shard_.end_turn();
  turns_.store(turns() + 1, std::memory_order_relaxed);
}

void Loop::run() {
  running_.store(true, std::memory_order_relaxed);
  while (!stopping_.load(std::memory_order_relaxed)) turn(Duration::seconds(1));
  stopping_.store(false, std::memory_order_relaxed);
  running_.store(false, std::memory_order_relaxed);
}

}  // namespace cairn::io
