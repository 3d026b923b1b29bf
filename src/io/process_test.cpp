#include "io/process.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <set>
#include <thread>

#include "io/real_loop.h"
#include "runtime/wait.h"

namespace cairn::io {
namespace {

// A process changes its thread's signal mask for good; a test gives it back.
class ProcessTest : public testing::Test {
 protected:
  void SetUp() override { pthread_sigmask(SIG_SETMASK, nullptr, &mask_); }
  void TearDown() override { pthread_sigmask(SIG_SETMASK, &mask_, nullptr); }

 private:
  sigset_t mask_;
};

TEST_F(ProcessTest, a_call_runs_on_its_shards_own_thread) {
  Process process(3);
  EXPECT_EQ(process.shards(), 3u);
  std::array<std::thread::id, 3> threads;
  std::atomic<unsigned> right{0}, done{0};
  for (unsigned i = 0; i < 3; ++i)
    ASSERT_TRUE(process.post(i, [&, i] {
      threads[i] = std::this_thread::get_id();
      if (current_shard() == &process.machine(i).shard && current_shard()->index() == i) ++right;
      if (++done == 3) process.stop();
    }));
  process.run([](Signal, Instant) {});
  EXPECT_EQ(right, 3u);
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(threads.begin(), threads.end()).size(), 3u);
}

TEST_F(ProcessTest, calls_between_shards_arrive) {
  Process process(2);
  int hops = 0;
  std::function<void(unsigned)> hop = [&](unsigned at) {
    if (++hops == 100) return process.stop();
    ASSERT_TRUE(process.post(1 - at, [&hop, at] { hop(1 - at); }));
  };
  ASSERT_TRUE(process.post(0, [&] { hop(0); }));
  process.run([](Signal, Instant) {});
  EXPECT_EQ(hops, 100);
}

TEST_F(ProcessTest, signals_are_delivered_on_the_first_shard) {
  Process process(2);
  std::vector<Signal> seen;
  ASSERT_TRUE(process.post(0, [] { ASSERT_EQ(::kill(::getpid(), SIGHUP), 0); }));
  process.run([&](Signal signal, Instant) {
    EXPECT_EQ(current_shard() == nullptr || current_shard() == &process.machine(0).shard, true);
    seen.push_back(signal);
    if (seen.size() == 1) ASSERT_EQ(::kill(::getpid(), SIGTERM), 0);
    if (seen.size() == 2) ASSERT_EQ(::kill(::getpid(), SIGINT), 0);
    if (seen.size() == 3) process.stop();
  });
  EXPECT_EQ(seen, (std::vector{Signal::reload, Signal::terminate, Signal::terminate}));
}

TEST_F(ProcessTest, a_signal_that_came_before_the_run_is_not_lost) {
  Process process(1);
  ASSERT_EQ(::kill(::getpid(), SIGHUP), 0);
  int reloads = 0;
  process.run([&](Signal signal, Instant) {
    reloads += signal == Signal::reload;
    process.stop();
  });
  EXPECT_EQ(reloads, 1);
}

Task<> use_everything(Call call, Machine& machine, std::string path, Process* process, std::string* out) {
  auto file = co_await machine.disk.open(call, std::move(path), OpenMode::read);
  if (file) {
    auto text = co_await (*file)->read(call, 0, 100, machine.slab.take(100));
    if (text) *out = as_text(text->bytes());
  }
  process->stop();
}

TEST_F(ProcessTest, a_machine_reaches_disk_and_pool) {
  TemporaryDirectory directory;
  std::ofstream(directory.at("f")) << "from the disk";
  std::string text;
  {
    Process process(1);
    Scope scope(process.machine(0).shard);
    ASSERT_TRUE(process.post(0, [&] {
      scope.spawn("use",
                  use_everything(scope.call(), process.machine(0), directory.at("f"), &process, &text));
    }));
    process.run([](Signal, Instant) {});
    EXPECT_TRUE(scope.empty());
    EXPECT_EQ(process.orphaned(), 0u);
  }
  EXPECT_EQ(text, "from the disk");
}

// --- the end

// A job that works until it is let go.
struct Gate {
  std::atomic<bool> entered{false}, open{false};
  void pass() {
    entered = true;
    while (!open) std::this_thread::yield();
  }
};

Task<> leave_a_job_behind(Call call, Machine& machine, std::shared_ptr<Gate> gate, Process* process) {
  Scope own(machine.shard, call);
  const auto work = [](Call under, Pool& pool, std::shared_ptr<Gate> held) -> Task<> {
    (void)co_await run(pool, under, Lane::read, [held] { held->pass(); });
  };
  own.spawn("work", work(own.call(), machine.pool, gate));
  while (!gate->entered) (void)co_await sleep_for(call, Duration::millis(1));
  own.cancel(StopReason::draining);
  co_await own.join_all(call);
  process->stop();
}

TEST_F(ProcessTest, a_job_that_runs_has_ended_before_what_it_uses_goes) {
  auto gate = std::make_shared<Gate>();
  Process process(2);
  {
    Scope scope(process.machine(1).shard);
    ASSERT_TRUE(process.post(1, [&] {
      scope.spawn("leave", leave_a_job_behind(scope.call(), process.machine(1), gate, &process));
    }));
    process.run([](Signal, Instant) {});
    EXPECT_TRUE(scope.empty());
  }
  EXPECT_EQ(process.orphaned(), 1u);
  gate->open = true;
  process.finish();
  EXPECT_EQ(process.orphaned(), 0u);
  EXPECT_EQ(gate.use_count(), 1);
}

TEST_F(ProcessTest, mail_that_a_shard_left_behind_is_delivered_before_the_end) {
  Process process(2);
  int delivered = 0;
  ASSERT_TRUE(process.post(0, [&] { process.stop(); }));
  process.run([](Signal, Instant) {});
  // Mail may send mail.
  ASSERT_TRUE(process.post(1, [&] {
    EXPECT_EQ(current_shard(), &process.machine(1).shard);
    ++delivered;
    ASSERT_TRUE(process.post(0, [&] { ++delivered; }));
  }));
  process.finish();
  EXPECT_EQ(delivered, 2);
}

TEST_F(ProcessTest, stop_needs_no_room_in_a_mailbox) {
  Process process(2);
  Gate gate;
  ASSERT_TRUE(process.post(1, [&] { gate.pass(); }));
  ASSERT_TRUE(process.post(0, [&] {
    while (!gate.entered) std::this_thread::yield();
    while (process.post(1, [] {})) {
    }
    process.stop();
    gate.open = true;
  }));
  process.run([](Signal, Instant) {});
}

// The watchdog's words, where a death test looks for them.
LastResort last_resort(Duration patience) {
  return {.patience = [patience] { return patience; },
          .tell =
              [](const std::vector<std::string>& hanging) {
                for (const std::string& each : hanging) std::cerr << "hangs: " << each << "\n";
              },
          .told = [] { return true; },
          .code = 10};
}

Task<> hang_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  co_return;
}

void hang_a_shard(unsigned shard) {
  Process process(2);
  Scope scope(process.machine(shard).shard);
  scope.spawn("dreamer", hang_for_ever());
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(::getpid(), SIGTERM);
  }).detach();
  process.run([&](Signal, Instant) { process.stop(); }, last_resort(Duration::millis(100)));
  process.finish();
}

TEST_F(ProcessTest, a_shard_that_hangs_does_not_keep_the_process) {
  EXPECT_EXIT(hang_a_shard(0), testing::ExitedWithCode(10), "hangs: shard 0, task dreamer");
  EXPECT_EXIT(hang_a_shard(1), testing::ExitedWithCode(10), "hangs: shard 1, task dreamer");
}

void hang_a_job() {
  auto gate = std::make_shared<Gate>();
  Process process(1);
  Scope scope(process.machine(0).shard);
  scope.spawn("leave", leave_a_job_behind(scope.call(), process.machine(0), gate, &process));
  process.run([](Signal, Instant) {}, last_resort({}));
  process.end_within(Duration::millis(100));
  process.finish();
}

TEST_F(ProcessTest, a_job_that_hangs_does_not_keep_the_process) {
  EXPECT_EXIT(hang_a_job(), testing::ExitedWithCode(10), "hangs: pool lane read, jobs 1");
}

void hang_the_last_words() {
  Process process(1);
  LastResort resort = last_resort({});
  resort.told = [] { return false; };
  ::kill(::getpid(), SIGINT);
  process.run([&](Signal, Instant) {}, std::move(resort));
}

TEST_F(ProcessTest, a_log_that_is_never_written_does_not_keep_the_process) {
  EXPECT_EXIT(hang_the_last_words(), testing::ExitedWithCode(10), "");
}

TEST_F(ProcessTest, a_process_that_ends_in_time_is_not_left) {
  Process process(1);
  ASSERT_EQ(::kill(::getpid(), SIGTERM), 0);
  int heard = 0;
  process.run(
      [&](Signal, Instant came) {
        EXPECT_GT(came, Instant{});
        ++heard;
        process.stop();
      },
      last_resort(Duration::seconds(60)));
  process.finish();
  EXPECT_EQ(heard, 1);
}

TEST_F(ProcessTest, entropy_does_not_repeat) {
  Process process(1);
  std::array<std::byte, 32> a{}, b{};
  process.machine(0).entropy.fill(a);
  process.machine(0).entropy.fill(b);
  EXPECT_NE(a, b);
  EXPECT_NE(random_seed(), random_seed());
}

TEST_F(ProcessTest, the_limit_of_descriptors_is_raised_to_the_hard_one) {
  Process process(1);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
  EXPECT_EQ(Process::descriptor_limit(), limit.rlim_max);
}

TEST_F(ProcessTest, small_files_are_read_whole_or_not_at_all) {
  TemporaryDirectory directory;
  std::ofstream(directory.at("f")) << "twelve bytes";
  EXPECT_EQ(read_small_file(directory.at("f"), 12).value(), "twelve bytes");
  EXPECT_EQ(read_small_file(directory.at("f"), 11).error().code, ErrorCode::invalid);
  EXPECT_EQ(read_small_file(directory.at("missing"), 11).error().code, ErrorCode::not_found);
  EXPECT_FALSE(read_small_file(directory.path(), 100).has_value());
}

TEST(SmallFile, only_a_regular_file_is_read_where_nothing_may_wait) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(replace_file(directory.at("f"), "twelve bytes"));
  EXPECT_EQ(read_regular_file(directory.at("f"), 12).value(), "twelve bytes");
  EXPECT_EQ(read_regular_file(directory.at("f"), 11).error().code, ErrorCode::invalid);
  EXPECT_EQ(read_regular_file(directory.at("missing"), 11).error().code, ErrorCode::not_found);
  for (const mode_t mode : {0640u, 0604u, 0620u, 0610u, 0644u}) {
    ASSERT_EQ(chmod(directory.at("f").c_str(), mode), 0);
    EXPECT_EQ(read_private_file(directory.at("f"), 12).error().code, ErrorCode::forbidden);
  }
  for (const mode_t mode : {0600u, 0400u}) {
    ASSERT_EQ(chmod(directory.at("f").c_str(), mode), 0);
    EXPECT_EQ(read_private_file(directory.at("f"), 12).value().reveal(), "twelve bytes");
  }
  EXPECT_EQ(read_regular_file(directory.path(), 100).error().code, ErrorCode::invalid);
  ASSERT_EQ(mkfifo(directory.at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_regular_file(directory.at("pipe"), 100).error().code, ErrorCode::invalid);
}

TEST_F(ProcessTest, leaving_now_takes_nothing_down) {
  EXPECT_EXIT(leave_now(10), testing::ExitedWithCode(10), "");
  EXPECT_GE(core_count(), 1u);
  EXPECT_GT(wall_clock(), WallTime{1'700'000'000'000});
}

}  // namespace
}  // namespace cairn::io
