#include "io/process.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>

namespace cairn::io {
Process::Node::Node(unsigned index, ThreadPool& threads)
    : loop(index),
      pool(threads, loop.mailbox()),
      network(loop, pool),
      disk(pool),
      machine{loop.shard(), loop.slab(), network, disk, entropy, loop.mailbox(), pool, memory} {}

Process::Process(unsigned shards, const LaneSizes& lanes) : threads_(lanes) {
  signal(SIGPIPE, SIG_IGN);  // sendfile has no flag for it
  signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit then fails with an error
  Watchdog::block_signals();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  for (unsigned i = 0; i < shards; ++i) nodes_.push_back(std::make_unique<Node>(i, threads_));
  turns_seen_.resize(shards);
  signal_mail_.process = this;
  signal_mail_.deliver = [](MailItem& item) { static_cast<SignalMail&>(item).process->deliver_signals(); };
  threads_.start();
}

Process::~Process() {
  finish();
  watchdog_.reset();
  finish();  // delivers the mail of a signal that came meanwhile
}

void Process::finish() {
  if (!std::exchange(finished_, true)) threads_.stop();
  for (bool any = true; any;) {
    any = false;
    for (auto& node : nodes_) {
      ShardScope here(node->loop.shard());
      any = node->loop.mailbox().drain() > 0 || any;
    }
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

void Process::run(OnSignal on_signal, LastResort last_resort) {
  CHECK(!watchdog_ && !finished_);
  on_signal_ = std::move(on_signal);
  WatchdogDuty duty{.heard = [this](Signal signal, Instant came) { hear(signal, came); },
                    .patience = std::move(last_resort.patience),
                    .look = [this] { look(); },
                    .told = std::move(last_resort.told),
                    .code = last_resort.code};
  if (last_resort.tell) duty.tell = [this, tell = std::move(last_resort.tell)] { tell(hanging()); };
  watchdog_.emplace(std::move(duty));
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < shards(); ++i) threads.emplace_back([this, i] { loop(i).run(); });
  loop(0).run();
  for (std::thread& thread : threads) thread.join();
  on_signal_ = nullptr;  // no shard runs that could be told
}

void Process::stop() noexcept {
  for (auto& node : nodes_) node->loop.stop();
}

void Process::end_within(Duration patience) noexcept { watchdog_->arm(patience); }

// --- on the watchdog's thread

void Process::hear(Signal signal, Instant came) noexcept {
  if (signal == Signal::reload) {
    signal_mail_.reloads.store(1, std::memory_order_relaxed);
  } else {
    if (signal_mail_.terminates.load(std::memory_order_relaxed) == 0)
      signal_mail_.came_ns.store(came.ns, std::memory_order_relaxed);
    signal_mail_.terminates.fetch_add(1, std::memory_order_release);
  }
  // Mail that is still on its way delivers this signal too.
  if (!signal_mail_.posted.exchange(true, std::memory_order_acq_rel)) loop(0).mailbox().post(signal_mail_);
}

void Process::look() noexcept {
  for (unsigned i = 0; i < shards(); ++i) {
    turns_seen_[i] = loop(i).turns();
    loop(i).wake();
  }
}

std::vector<std::string> Process::hanging() const {
  std::vector<std::string> found;
  for (unsigned i = 0; i < shards(); ++i) {
    const Loop& each = nodes_[i]->loop;
    if (!each.running() || each.turns() != turns_seen_[i]) continue;
    // The shard has been in one step for so long that the step's task will not end between here and the
    // report.
    const TaskInfo* task = each.shard().current_task();
    found.push_back(task == nullptr ? fmt::format("shard {}", i)
                                    : fmt::format("shard {}, task {}", i, task->name));
  }
  for (std::size_t i = 0; i < lane_count; ++i) {
    const auto lane = static_cast<Lane>(i);
    if (const std::size_t jobs = threads_.working(lane); jobs > 0)
      found.push_back(fmt::format("pool lane {}, jobs {}", name_of(lane), jobs));
  }
  return found;
}

// --- on shard 0

void Process::deliver_signals() {
  // Reset before the signals are taken: a signal that comes now posts the mail again.
  signal_mail_.posted.exchange(false, std::memory_order_acq_rel);
  const unsigned reloads = signal_mail_.reloads.exchange(0, std::memory_order_relaxed);
  const unsigned terminates = signal_mail_.terminates.exchange(0, std::memory_order_acquire);
  const Instant came{signal_mail_.came_ns.load(std::memory_order_relaxed)};
  if (!on_signal_) return;
  if (reloads > 0) on_signal_(Signal::reload, came);
  for (unsigned i = 0; i < terminates; ++i) on_signal_(Signal::terminate, came);
}

}  // namespace cairn::io
