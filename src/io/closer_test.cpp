#include "io/closer.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "io/real_loop.h"

namespace cairn::io {
namespace {

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

// Keeps the only thread of a lane from doing anything else until it goes, and `more` places of its queue.
class Hold {
 public:
  explicit Hold(RealLoop& real, std::size_t more = 0) {
    real.spawn(wait(&real, state_));
    CHECK(real.turn_until([&] { return state_->held > 0; }));
    for (std::size_t i = 0; i < more; ++i) real.spawn(wait(&real, state_));
    CHECK(real.turn_until([&] { return real.threads.queued(Lane::upkeep) == more; }));
  }
  ~Hold() { state_->go = true; }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  struct State {
    std::atomic<int> held{0};
    std::atomic<bool> go{false};
  };
  static Task<> wait(RealLoop* real, std::shared_ptr<State> state) {
    (void)co_await run(real->pool, real->call(), Lane::upkeep, [state] {
      ++state->held;
      while (!state->go) std::this_thread::yield();
    });
  }
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

std::unique_ptr<File> make_file(RealLoop& real, const std::string& path) {
  auto opened = real.run(real.disk.open(real.call(), path, OpenMode::create_new));
  CHECK(opened);
  return std::move(*opened);
}

TEST(Closer, a_shard_leaves_the_close_of_a_file_to_the_pool) {
  TemporaryDirectory directory;
  RealLoop real;
  auto file = make_file(real, directory.at("a"));
  const int descriptor = file->descriptor();
  {
    Hold hold(real);
    ShardScope here(real.loop.shard());
    file.reset();
    EXPECT_TRUE(is_open(descriptor));
  }
  EXPECT_TRUE(real.turn_until([&] { return !is_open(descriptor); }));
}

TEST(Closer, what_a_full_lane_refuses_is_closed_with_the_next_use_of_the_disk) {
  TemporaryDirectory directory;
  RealLoop real;
  auto file = make_file(real, directory.at("a"));
  const int descriptor = file->descriptor();
  {
    Hold hold(real, 16);
    ShardScope here(real.loop.shard());
    file.reset();
    EXPECT_TRUE(is_open(descriptor));
  }
  ASSERT_TRUE(real.turn_until([&] { return real.pool.jobs() == 0; }));
  EXPECT_TRUE(is_open(descriptor));
  EXPECT_TRUE(real.run(real.disk.free_space(real.call(), directory.path())));
  EXPECT_TRUE(real.turn_until([&] { return !is_open(descriptor); }));
}

TEST(Closer, without_a_pool_files_are_closed_by_whoever_lets_go_of_them) {
  TemporaryDirectory directory;
  int descriptor = -1;
  {
    std::unique_ptr<File> file;
    {
      RealLoop real;
      file = make_file(real, directory.at("a"));
      descriptor = file->descriptor();
    }
    EXPECT_TRUE(is_open(descriptor));
  }
  EXPECT_FALSE(is_open(descriptor));
}

}  // namespace
}  // namespace cairn::io
