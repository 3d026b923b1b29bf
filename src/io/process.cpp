#include "io/process.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace cairn::io {
namespace {

sigset_t watched_signals() noexcept {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  return set;
}

// Signals as readable events of shard 0's loop. Every thread has them blocked.
class SignalReader final : public Pollable {
 public:
  SignalReader(Loop& loop, std::function<void(Signal)> on_signal) : on_signal_(std::move(on_signal)) {
    const sigset_t set = watched_signals();
    descriptor_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(descriptor_ >= 0 && loop.watch(descriptor_, *this).has_value());
  }
  ~SignalReader() { close(descriptor_); }

  void on_events(std::uint32_t) noexcept override {
    signalfd_siginfo info{};
    while (read(descriptor_, &info, sizeof info) == sizeof info)
      on_signal_(info.ssi_signo == SIGHUP ? Signal::reload : Signal::terminate);
  }

 private:
  std::function<void(Signal)> on_signal_;
  int descriptor_;
};

constexpr LaneSizes lane_sizes{{{2, 256}, {1, 256}, {1, 64}, {1, 64}}};

}  // namespace

Process::Node::Node(unsigned index, ThreadPool& threads)
    : loop(index),
      pool(threads, loop.mailbox()),
      network(loop, pool),
      disk(pool),
      machine{loop.shard(), loop.slab(), network, disk, entropy, loop.mailbox(), pool, memory} {}

Process::Process(unsigned shards) : threads_(lane_sizes) {
  signal(SIGPIPE, SIG_IGN);  // sendfile has no flag for it
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  for (unsigned i = 0; i < shards; ++i) nodes_.push_back(std::make_unique<Node>(i, threads_));
  threads_.start();
}

Process::~Process() {
  threads_.stop();
  for (auto& node : nodes_) {
    ShardScope here(node->loop.shard());
    node->loop.mailbox().drain();
  }
}

std::uint64_t Process::descriptor_limit() noexcept {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 1024;
}

std::uint64_t Process::orphaned() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& node : nodes_) sum += node->pool.orphaned();
  return sum;
}

unsigned core_count() noexcept { return std::max(1u, std::thread::hardware_concurrency()); }

WallTime wall_clock() noexcept {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return {t.tv_sec * 1000 + t.tv_nsec / 1'000'000};
}

void leave_now(int code) noexcept { _exit(code); }

void Process::run(std::function<void(Signal)> on_signal) {
  SignalReader signals(loop(0), std::move(on_signal));
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < shards(); ++i) threads.emplace_back([this, i] { loop(i).run(); });
  loop(0).run();
  for (std::thread& thread : threads) thread.join();
}

void Process::stop() {
  for (unsigned i = 0; i < shards(); ++i) {
    Loop& each = loop(i);
    // A full mailbox is drained by a running loop: asking again is enough.
    while (!each.mailbox().try_post_call([&each] { each.stop(); })) std::this_thread::yield();
  }
}

}  // namespace cairn::io
