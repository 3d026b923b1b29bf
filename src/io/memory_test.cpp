#include "io/memory.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "io/real_loop.h"
#include "io/sim/memory.h"

namespace cairn::io {
namespace {

void fill(Arena& arena, std::size_t offset, std::size_t count, char with) {
  std::fill_n(arena.data() + offset, count, static_cast<std::byte>(with));
}

// Both twins keep the same promises.
class ArenaTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Arena> make(std::size_t bytes) { return std::move(*memory().make_arena(bytes)); }
  Memory& memory() { return GetParam() ? static_cast<Memory&>(kernel) : simulated; }
  KernelMemory kernel;
  sim::SimMemory simulated;
};
INSTANTIATE_TEST_SUITE_P(Twins, ArenaTest, testing::Bool(),
                         [](const auto& twin) { return twin.param ? "kernel" : "simulated"; });

TEST_P(ArenaTest, its_size_is_whole_pages) {
  EXPECT_EQ(make(1)->size(), Arena::page);
  EXPECT_EQ(make(Arena::page)->size(), Arena::page);
  EXPECT_EQ(make(Arena::page + 1)->size(), 2 * Arena::page);
  EXPECT_FALSE(memory().make_arena(0).has_value());
  EXPECT_FALSE(memory().make_arena(~std::size_t{0}).has_value());
}

TEST_P(ArenaTest, its_file_reads_what_was_written_to_memory) {
  auto arena = make(4 * Arena::page);
  fill(*arena, 0, arena->size(), '.');
  fill(*arena, 5000, 3, 'x');
  EXPECT_EQ(arena->file().size(), 4 * Arena::page);
  Slab slab;
  Buffer into = slab.take(10);
  EXPECT_EQ(arena->file().try_read(4999, 5, into), 5u);
  EXPECT_EQ(as_text(into.bytes()), ".xxx.");
  std::array<std::byte, 10> room;
  EXPECT_EQ(arena->file().try_read_into(4 * Arena::page - 4, room), 4u);
  EXPECT_EQ(arena->file().try_read_into(4 * Arena::page, room), 0u);
  EXPECT_EQ(arena->file().try_read_into(~std::uint64_t{0}, room), 0u);
}

TEST_P(ArenaTest, a_punched_range_is_zero_and_nothing_else_is) {
  auto arena = make(4 * Arena::page);
  fill(*arena, 0, arena->size(), 'x');
  arena->punch(Arena::page, 2 * Arena::page);
  const std::string text(as_text({arena->data(), arena->size()}));
  EXPECT_EQ(text, std::string(Arena::page, 'x') + std::string(2 * Arena::page, '\0') +
                      std::string(Arena::page, 'x'));
  fill(*arena, Arena::page, 1, 'y');
  EXPECT_EQ(arena->data()[Arena::page], std::byte{'y'});
  EXPECT_EQ(arena->size(), 4 * Arena::page);
}

TEST_P(ArenaTest, part_of_a_page_cannot_be_punched) {
  auto arena = make(2 * Arena::page);
  EXPECT_DEATH(arena->punch(1, Arena::page), "page");
  EXPECT_DEATH(arena->punch(0, 100), "page");
  EXPECT_DEATH(arena->punch(Arena::page, 2 * Arena::page), "size");
}

// MM-1
TEST_P(ArenaTest, a_large_page_is_punched_as_a_whole_or_not_at_all) {
  constexpr std::size_t block = Arena::block;
  auto arena = make(3 * block + Arena::page);
  if (!arena->make_huge(block)) GTEST_SKIP() << "no large pages to be had";
  EXPECT_TRUE(std::all_of(arena->data() + block, arena->data() + 2 * block,
                          [](std::byte b) { return b == std::byte{0}; }));
  fill(*arena, 0, arena->size(), 'x');
  EXPECT_DEATH(arena->punch(block, Arena::page), "whole_block");
  EXPECT_DEATH(arena->punch(2 * block - Arena::page, Arena::page), "whole_block");
  EXPECT_DEATH(arena->punch(0, 2 * block - Arena::page), "whole_block");
  EXPECT_DEATH(arena->punch(block + Arena::page, 2 * block), "whole_block");
  arena->punch(0, Arena::page);  // its neighbours are small pages
  arena->punch(2 * block, Arena::page);
  EXPECT_EQ(arena->data()[block], std::byte{'x'});
  arena->punch(block, block);
  EXPECT_EQ(arena->data()[block], std::byte{0});
  EXPECT_EQ(arena->data()[2 * block - 1], std::byte{0});
  fill(*arena, block, block, 'y');
  arena->punch(block, Arena::page);  // small pages again
  EXPECT_EQ(arena->data()[block + Arena::page], std::byte{'y'});
}

TEST_P(ArenaTest, only_a_whole_block_becomes_a_large_page_and_only_once) {
  auto arena = make(2 * Arena::block - Arena::page);
  EXPECT_DEATH(arena->make_huge(Arena::page), "block");
  EXPECT_DEATH(arena->make_huge(Arena::block), "size");
  if (!arena->make_huge(0)) GTEST_SKIP() << "no large pages to be had";
  EXPECT_DEATH(arena->make_huge(0), "exchange");
}

TEST(SimArena, a_large_page_that_cannot_be_had_leaves_small_ones) {
  sim::RandomChoices choices(1);
  sim::SimArena arena(Arena::block, &choices);
  int had = 0, refused = 0;
  for (int i = 0; i < 100; ++i) {
    if (arena.make_huge(0)) {
      ++had;
      fill(arena, 0, Arena::block, 'x');
      arena.punch(0, Arena::block);
    } else {
      ++refused;
      fill(arena, 0, Arena::page, 'x');
      arena.punch(0, Arena::page);
    }
  }
  EXPECT_GT(had, 50);
  EXPECT_GT(refused, 5);
}

TEST(MemoryArena, its_file_cannot_change_its_size) {
  auto arena = std::move(*MemoryArena::make(8 * Arena::page));
  const int descriptor = arena->file().descriptor();
  EXPECT_NE(ftruncate(descriptor, 0), 0);
  EXPECT_NE(ftruncate(descriptor, 1 << 20), 0);
  EXPECT_NE(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
}

TEST(MemoryArena, only_what_is_written_takes_memory) {
  auto arena = std::move(*MemoryArena::make(std::size_t{1} << 30));
  const auto kept = [&] {
    struct stat is{};
    fstat(arena->file().descriptor(), &is);
    return static_cast<std::size_t>(is.st_blocks) * 512;
  };
  EXPECT_EQ(kept(), 0u);
  fill(*arena, 1 << 20, 1 << 16, 'x');
  EXPECT_GE(kept(), std::size_t{1} << 16);
  arena->punch(1 << 20, 1 << 16);
  EXPECT_EQ(kept(), 0u);
  const bool huge = arena->make_huge(Arena::block);
  EXPECT_EQ(kept(), huge ? Arena::block : 0u);
  if (huge) arena->punch(Arena::block, Arena::block);
  EXPECT_EQ(kept(), 0u);
}

TEST(MemoryArena, writes_through_its_file_are_refused) {
  RealLoop real;
  auto arena = std::move(*MemoryArena::make(Arena::page));
  Buffer text = real.loop.slab().take(10);
  text.fill(1);
  EXPECT_FALSE(real.run(arena->file().write(real.call(), 0, std::move(text))).has_value());
  EXPECT_FALSE(real.run(arena->file().truncate(real.call(), 0)).has_value());
}

// A connected pair: over loopback as the server's peers are, or a Unix pair.
struct Pair {
  explicit Pair(bool tcp) {
    if (!tcp) {
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
      return;
    }
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* address = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(bind(listener, address, size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, address, &size), 0);
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(ends[1], address, size), 0);
    ends[0] = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~Pair() {
    close(ends[0]);
    close(ends[1]);
  }
  int ends[2] = {-1, -1};
};

TEST(MemoryArena, bytes_handed_to_a_socket_outlast_punch_and_rewrite) {
  constexpr std::size_t slot = 4 * Arena::page;
  for (const bool tcp : {false, true}) {
    auto arena = std::move(*MemoryArena::make(2 * slot));
    fill(*arena, slot, slot, 'a');
    Pair pair(tcp);
    off_t at = slot;
    ASSERT_EQ(sendfile(pair.ends[0], arena->file().descriptor(), &at, slot), static_cast<ssize_t>(slot));
    arena->punch(slot, slot);
    fill(*arena, slot, slot, 'b');
    std::string got(slot, '\0');
    ASSERT_EQ(recv(pair.ends[1], got.data(), slot, MSG_WAITALL), static_cast<ssize_t>(slot));
    EXPECT_EQ(got, std::string(slot, 'a')) << (tcp ? "tcp" : "unix");
  }
}

TEST(MemoryArena, bytes_handed_to_a_socket_outlast_their_large_page) {
  constexpr std::size_t part = 32 << 10;  // fits the socket at once
  for (const bool tcp : {false, true}) {
    auto arena = std::move(*MemoryArena::make(2 * Arena::block));
    if (!arena->make_huge(Arena::block)) GTEST_SKIP() << "no large pages to be had";
    fill(*arena, Arena::block, Arena::block, 'a');
    Pair pair(tcp);
    off_t at = Arena::block + 5 * part;
    ASSERT_EQ(sendfile(pair.ends[0], arena->file().descriptor(), &at, part), static_cast<ssize_t>(part));
    arena->punch(Arena::block, Arena::block);
    (void)arena->make_huge(Arena::block);
    fill(*arena, Arena::block, Arena::block, 'b');
    std::string got(part, '\0');
    ASSERT_EQ(recv(pair.ends[1], got.data(), part, MSG_WAITALL), static_cast<ssize_t>(part));
    EXPECT_EQ(got, std::string(part, 'a')) << (tcp ? "tcp" : "unix");
  }
}

}  // namespace
}  // namespace cairn::io
