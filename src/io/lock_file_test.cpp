#include "io/lock_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "io/small_file.h"

namespace cairn::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Directory {
 public:
  Directory() {
    std::string name = std::filesystem::temp_directory_path() / "cairn-lock-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string path;
};

constexpr WallTime start{1'767'225'600'000};  // 2026-01-01

TEST(LockFile, a_second_taker_is_told_who_has_it_since_when_and_where) {
  Directory directory;
  auto held = LockFile::take(directory.path, "storage.lock", start);
  ASSERT_TRUE(held.has_value()) << held.error();
  const auto refused = LockFile::take(directory.path, "storage.lock", start);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error(), HasSubstr(directory.path));
  EXPECT_THAT(refused.error(), HasSubstr("process " + std::to_string(getpid())));
  EXPECT_THAT(refused.error(), HasSubstr("2026-01-01T00:00:00Z"));
}

TEST(LockFile, it_is_free_again_when_its_holder_has_ended_however_that_ended) {
  Directory directory;
  std::array<int, 2> pipe_ends;
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto held = LockFile::take(directory.path, "storage.lock", start);
    const char said = held ? 'y' : 'n';
    (void)!write(pipe_ends[1], &said, 1);
    for (;;) pause();
  }
  char said = 0;
  ASSERT_EQ(read(pipe_ends[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  const auto refused = LockFile::take(directory.path, "storage.lock", start);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error(), HasSubstr("process " + std::to_string(child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(LockFile::take(directory.path, "storage.lock", start).has_value());
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(LockFile, what_a_former_holder_left_behind_is_no_lock) {
  Directory directory;
  std::ofstream(directory.path + "/storage.lock")
      << "1 1999-01-01T00:00:00Z\nand a long rest of something else\n";
  auto held = LockFile::take(directory.path, "storage.lock", start);
  ASSERT_TRUE(held.has_value()) << held.error();
  auto text = read_small_file(directory.path + "/storage.lock", 1000);
  EXPECT_EQ(*text, std::to_string(getpid()) + " 2026-01-01T00:00:00Z\n");
}

TEST(LockFile, what_a_holder_announces_is_read_while_it_holds_the_lock_and_not_after) {
  Directory directory;
  const std::string path = directory.path + "/storage.lock";
  EXPECT_THAT(LockFile::read_announced(path), IsEmpty());
  {
    auto held = LockFile::take(directory.path, "storage.lock", start);
    ASSERT_TRUE(held.has_value()) << held.error();
    EXPECT_THAT(LockFile::read_announced(path), IsEmpty());
    const std::vector<std::string> addresses{"127.0.0.1:7410", "unix:/a path/cairn.sock", "unix:/two\nlines"};
    ASSERT_TRUE(held->announce(addresses).has_value());
    EXPECT_THAT(LockFile::read_announced(path), ElementsAre("127.0.0.1:7410", "unix:/a path/cairn.sock"));
    const auto refused = LockFile::take(directory.path, "storage.lock", start);
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error(), HasSubstr("process " + std::to_string(getpid())));
    ASSERT_TRUE(held->announce(std::vector<std::string>{"[::1]:1"}).has_value());
    EXPECT_THAT(LockFile::read_announced(path), ElementsAre("[::1]:1"));
    LockFile moved = std::move(*held);
    ASSERT_TRUE(moved.announce({}).has_value());
    EXPECT_THAT(LockFile::read_announced(path), IsEmpty());
    ASSERT_TRUE(moved.announce(addresses).has_value());
  }
  // The text is still there; nobody stands behind it.
  EXPECT_THAT(*read_small_file(path, 1000), HasSubstr("127.0.0.1:7410"));
  EXPECT_THAT(LockFile::read_announced(path), IsEmpty());
}

TEST(LockFile, a_former_holder_s_addresses_are_not_taken_for_the_next_one_s) {
  Directory directory;
  const std::string path = directory.path + "/storage.lock";
  {
    auto former = LockFile::take(directory.path, "storage.lock", start);
    ASSERT_TRUE(former->announce(std::vector<std::string>{"127.0.0.1:7410"}).has_value());
  }
  auto next = LockFile::take(directory.path, "storage.lock", start);
  ASSERT_TRUE(next.has_value()) << next.error();
  EXPECT_THAT(LockFile::read_announced(path), IsEmpty());
  // Nor is what anybody wrote into the file, while its holder has announced nothing.
  std::ofstream(path, std::ios::app) << "listens 127.0.0.1:1\n";
  EXPECT_THAT(LockFile::read_announced(path), IsEmpty());
}

TEST(LockFile, reading_what_is_announced_is_never_in_the_way_of_a_taker) {
  Directory directory;
  const std::string path = directory.path + "/storage.lock";
  {
    auto made = LockFile::take(directory.path, "storage.lock", start);
  }
  std::atomic<bool> done = false;
  std::jthread reader([&] {
    while (!done) (void)LockFile::read_announced(path);
  });
  for (int i = 0; i < 2000; ++i) {
    auto held = LockFile::take(directory.path, "storage.lock", start);
    EXPECT_TRUE(held.has_value()) << held.error();
    EXPECT_TRUE(held->announce(std::vector<std::string>{"127.0.0.1:7410"}).has_value());
  }
  done = true;
}

TEST(LockFile, a_directory_that_is_not_there_is_named) {
  const auto refused = LockFile::take("/nonexistent/place", "storage.lock", start);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error(), HasSubstr("/nonexistent/place"));
}

}  // namespace
}  // namespace cairn::io
