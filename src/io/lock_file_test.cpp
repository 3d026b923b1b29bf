#include "io/lock_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/small_file.h"

namespace cairn::io {
namespace {

using testing::HasSubstr;

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

TEST(LockFile, a_directory_that_is_not_there_is_named) {
  const auto refused = LockFile::take("/nonexistent/place", "storage.lock", start);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error(), HasSubstr("/nonexistent/place"));
}

}  // namespace
}  // namespace cairn::io
