#include "io/disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "io/read_block.h"
#include "io/real_loop.h"

namespace cairn::io {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class DiskTest : public testing::Test {
 protected:
  Result<std::unique_ptr<File>> open(std::string_view name, OpenMode mode) {
    return real.run(real.disk.open(real.call(), directory.at(name), mode));
  }
  std::unique_ptr<File> create(std::string_view name, std::string_view text = "") {
    auto file = open(name, OpenMode::create_new);
    EXPECT_TRUE(file.has_value());
    if (!text.empty()) EXPECT_TRUE(write(**file, 0, text).has_value());
    return std::move(*file);
  }
  Buffer buffer(std::string_view text) {
    Buffer made = real.loop.slab().take(text.size());
    std::copy_n(as_bytes(text).begin(), text.size(), made.room().begin());
    made.fill(text.size());
    return made;
  }
  Result<Buffer> write(File& file, std::uint64_t offset, std::string_view text) {
    return real.run(file.write(real.call(), offset, buffer(text)));
  }
  std::string read(File& file, std::uint64_t offset, std::size_t count) {
    auto got = real.run(file.read(real.call(), offset, count, real.loop.slab().take(4000)));
    return got ? std::string(as_text(got->bytes())) : std::string(name_of(got.error().code));
  }
  // Bytes of a range that was read past the page cache, found where they must be.
  std::string read_direct(File& file, std::uint64_t offset, std::size_t count) {
    auto block = std::make_shared<ReadBlock>(blocks.try_take());
    std::ranges::fill(block->bytes(), std::byte{'?'});
    auto got = real.run(file.read_direct(real.call(), offset, count, {block->bytes(), block}));
    if (!got) return std::string(name_of(got.error().code));
    return std::string(as_text(block->bytes().subspan(offset % File::direct_alignment, *got)));
  }
  // Writes what is dirty and drops the rest of it from the page cache. False: that does not work here.
  bool cool(std::string_view name) {
    struct statfs is{};
    constexpr decltype(is.f_type) tmpfs = 0x01021994;
    const int descriptor = ::open(directory.at(name).c_str(), O_RDONLY);
    std::array<std::uint64_t, 2> range{0, 1};
    std::array<std::uint64_t, 5> pages{};
    const bool works = ::fstatfs(descriptor, &is) == 0 && is.f_type != tmpfs && ::fsync(descriptor) == 0 &&
                       ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
                       ::syscall(451, descriptor, range.data(), pages.data(), 0U) == 0;
    ::close(descriptor);
    return works;
  }
  unsigned mode_of(std::string_view name) const {
    struct stat is{};
    EXPECT_EQ(::stat(directory.at(name).c_str(), &is), 0);
    return is.st_mode & 0777;
  }

  TemporaryDirectory directory;
  RealLoop real;
  ReadBlocks blocks{8 * File::direct_alignment, 4};
};

TEST_F(DiskTest, what_was_written_is_read) {
  auto file = create("f", "0123456789");
  EXPECT_EQ(read(*file, 0, 10), "0123456789");
  EXPECT_EQ(read(*file, 3, 4), "3456");
  EXPECT_EQ(read(*file, 8, 100), "89") << "short only at the end";
  EXPECT_EQ(read(*file, 10, 1), "");
  ASSERT_TRUE(write(*file, 2, "xx").has_value());
  EXPECT_EQ(read(*file, 0, 10), "01xx456789");
  EXPECT_EQ(file->size().value(), 10u);
  auto again = open("f", OpenMode::read);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(read(**again, 0, 10), "01xx456789");
}

TEST_F(DiskTest, the_buffer_comes_back_from_a_write) {
  auto file = create("f");
  auto back = write(*file, 0, "mine");
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(as_text(back->bytes()), "mine");
}

TEST_F(DiskTest, a_read_fills_no_more_than_the_buffers_room) {
  auto file = create("f", std::string(4000, 'a') + "b");
  Buffer partly = buffer("kept");
  const std::size_t room = partly.room().size();
  auto got = real.run(file->read(real.call(), 0, 100'000, std::move(partly)));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->size(), 4 + std::min<std::size_t>(room, 4001));
  EXPECT_EQ(as_text(got->bytes()).substr(0, 5), "kepta");
}

TEST_F(DiskTest, creating_what_exists_is_a_conflict) {
  create("f", "old");
  EXPECT_EQ(open("f", OpenMode::create_new).error().code, ErrorCode::conflict);
  EXPECT_EQ(read(**open("f", OpenMode::read), 0, 3), "old");
}

TEST_F(DiskTest, what_is_not_there_is_not_found) {
  create("f");
  EXPECT_EQ(open("missing", OpenMode::read).error().code, ErrorCode::not_found);
  EXPECT_EQ(open("missing", OpenMode::write).error().code, ErrorCode::not_found);
  EXPECT_EQ(open("f/below", OpenMode::read).error().code, ErrorCode::not_found);
  EXPECT_EQ(open("missing/f", OpenMode::create_new).error().code, ErrorCode::not_found);
  EXPECT_EQ(open(".", OpenMode::read).error().code, ErrorCode::not_found) << "a directory is no file";
  EXPECT_EQ(real.run(real.disk.unlink(real.call(), directory.at("missing"))).error().code,
            ErrorCode::not_found);
  EXPECT_EQ(real.run(real.disk.rename(real.call(), directory.at("missing"), directory.at("x"))).error().code,
            ErrorCode::not_found);
  EXPECT_EQ(real.run(real.disk.list(real.call(), directory.at("missing"))).error().code,
            ErrorCode::not_found);
  EXPECT_EQ(real.run(real.disk.sync_directory(real.call(), directory.at("missing"))).error().code,
            ErrorCode::not_found);
  EXPECT_EQ(real.run(real.disk.free_space(real.call(), directory.at("missing"))).error().code,
            ErrorCode::not_found);
}

TEST_F(DiskTest, a_file_opened_to_read_cannot_be_written) {
  create("f", "old");
  auto file = open("f", OpenMode::read);
  EXPECT_EQ(write(**file, 0, "new").error().code, ErrorCode::io_failed);
  EXPECT_EQ(real.run((*file)->truncate(real.call(), 0)).has_value(), false);
  EXPECT_EQ(read(**file, 0, 3), "old");
}

TEST_F(DiskTest, what_is_made_is_private) {
  create("f");
  ASSERT_TRUE(real.run(real.disk.make_directory(real.call(), directory.at("d"))).has_value());
  EXPECT_EQ(mode_of("f") & 0077, 0u);
  EXPECT_EQ(mode_of("d") & 0077, 0u);
  EXPECT_EQ(real.run(real.disk.make_directory(real.call(), directory.at("d"))).error().code,
            ErrorCode::conflict);
}

TEST_F(DiskTest, truncate_shortens_and_lengthens) {
  auto file = create("f", "0123456789");
  ASSERT_TRUE(real.run(file->truncate(real.call(), 4)).has_value());
  EXPECT_EQ(read(*file, 0, 10), "0123");
  ASSERT_TRUE(real.run(file->truncate(real.call(), 6)).has_value());
  EXPECT_EQ(read(*file, 0, 10), std::string("0123\0\0", 6));
  EXPECT_EQ(file->size().value(), 6u);
}

TEST_F(DiskTest, rename_replaces_and_unlink_removes) {
  create("a", "new");
  create("b", "old");
  ASSERT_TRUE(real.run(real.disk.rename(real.call(), directory.at("a"), directory.at("b"))).has_value());
  EXPECT_EQ(open("a", OpenMode::read).error().code, ErrorCode::not_found);
  auto file = open("b", OpenMode::read);
  ASSERT_TRUE(real.run(real.disk.unlink(real.call(), directory.at("b"))).has_value());
  EXPECT_EQ(open("b", OpenMode::read).error().code, ErrorCode::not_found);
  EXPECT_EQ(read(**file, 0, 3), "new") << "who has it open goes on";
}

TEST_F(DiskTest, a_directory_is_listed_sorted) {
  EXPECT_THAT(*real.run(real.disk.list(real.call(), directory.path())), IsEmpty());
  for (const char* name : {"b", "a", "C", "10", "9", ".hidden"}) create(name);
  EXPECT_THAT(*real.run(real.disk.list(real.call(), directory.path())),
              ElementsAre(".hidden", "10", "9", "C", "a", "b"));
}

TEST_F(DiskTest, syncing_succeeds_and_space_is_known) {
  auto file = create("f", "text");
  EXPECT_TRUE(real.run(file->sync_data(real.call())).has_value());
  EXPECT_TRUE(real.run(real.disk.sync_directory(real.call(), directory.path())).has_value());
  const std::uint64_t free = real.run(real.disk.free_space(real.call(), directory.path())).value().bytes;
  EXPECT_GT(free, 0u);
  EXPECT_GE(real.run(real.disk.total_space(real.call(), directory.path())).value(), free);
}

TEST_F(DiskTest, no_space_is_storage_full) {
  auto full = real.run(real.disk.open(real.call(), "/dev/full", OpenMode::write));
  EXPECT_EQ(full.error().code, ErrorCode::not_found) << "a device is no file";
  auto file = create("f");
  EXPECT_EQ(real.run(file->truncate(real.call(), std::uint64_t{1} << 62)).error().code,
            ErrorCode::storage_full);
}

TEST_F(DiskTest, what_was_just_written_is_read_without_a_wait) {
  auto file = create("f", "0123456789");
  Buffer into = real.loop.slab().take(100);
  const Result<std::size_t> got = file->try_read(2, 5, into);
  if (!got && got.error().code == ErrorCode::busy)
    GTEST_SKIP() << "this file system never reads without waiting";
  EXPECT_EQ(got.value(), 5u);
  EXPECT_EQ(as_text(into.bytes()), "23456");
  EXPECT_EQ(file->try_read(10, 5, into).value(), 0u);
}

TEST_F(DiskTest, a_range_becomes_warm) {
  auto file = create("f", std::string(4000, 'x'));
  EXPECT_TRUE(real.run(file->warm(real.call(), 0, 4000)).has_value());
  ShardScope here(real.loop.shard());
  EXPECT_TRUE(file->is_warm(0, 4000));
  EXPECT_TRUE(file->is_warm(100, 200));
  EXPECT_GE(file->descriptor(), 0);
}

TEST_F(DiskTest, nothing_is_begun_for_a_call_that_is_over) {
  create("f", "text");
  const Call over = real.call().by(real.loop.shard().now());
  const auto opened = real.run(real.disk.open(over, directory.at("f"), OpenMode::read));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::timeout);
  // Whether it ran or was taken back, nothing of it is left.
  EXPECT_TRUE(real.turn_until([&] { return real.pool.jobs() == 0; }));
  EXPECT_EQ(real.pool.orphaned(), 0u);
}

TEST_F(DiskTest, an_operation_outlives_its_waiter_and_its_file) {
  auto file = create("f");
  for (int i = 0; i < 50; ++i) {
    const Call soon = real.call().by(real.loop.shard().now() + Duration::nanos(1));
    auto written = real.run(file->write(soon, 0, buffer("text")));
    if (!written) EXPECT_EQ(written.error().code, ErrorCode::timeout);
  }
  file.reset();
  EXPECT_TRUE(real.turn_until([&] { return real.pool.jobs() == 0; }));
  EXPECT_EQ(real.pool.orphaned(), 0u);
  EXPECT_EQ(real.loop.slab().outstanding(), 0u);
}

TEST_F(DiskTest, a_direct_read_gives_the_range_wherever_it_begins_and_ends) {
  constexpr std::uint64_t sector = File::direct_alignment;
  std::string text(3 * sector + 100, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + (i * 7 + i / sector) % 26);
  auto file = create("f");
  for (std::size_t at = 0; at < text.size(); at += 2048)
    ASSERT_TRUE(write(*file, at, std::string_view(text).substr(at, 2048)).has_value());
  const std::uint64_t end = text.size();
  for (const OpenMode mode : {OpenMode::read_direct, OpenMode::read}) {  // past the page cache, and without
    (void)cool("f");
    auto again = open("f", mode);
    ASSERT_TRUE(again.has_value());
    for (const std::uint64_t from :
         {std::uint64_t{0}, std::uint64_t{1}, sector - 1, sector, sector + 1, 2 * sector, 3 * sector - 1,
          3 * sector, 3 * sector + 99, end, end + 1, end + 2 * sector})
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{511},
                                      std::size_t{sector}, std::size_t{sector + 1}, std::size_t{3 * sector}})
        EXPECT_EQ(read_direct(**again, from, count), from < end ? text.substr(from, count) : "")
            << from << " " << count;
  }
}

TEST_F(DiskTest, what_was_written_but_not_synced_is_in_a_direct_read) {
  auto file = create("f", std::string(4000, 'a'));
  auto again = open("f", OpenMode::read_direct);
  ASSERT_TRUE(write(*file, 10, "new").has_value());
  EXPECT_EQ(read_direct(**again, 8, 7), "aanewaa");
}

TEST_F(DiskTest, a_file_system_without_direct_reads_is_read_as_any_other) {
  std::ifstream in("/proc/version");
  std::string text(std::istreambuf_iterator<char>(in), {});
  ASSERT_FALSE(text.empty());
  auto file = real.run(real.disk.open(real.call(), "/proc/version", OpenMode::read_direct));
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE((*file)->is_resident(0, 1)) << "nobody knows";
  EXPECT_EQ(read_direct(**file, 0, 1000), text);
  EXPECT_EQ(read_direct(**file, 3, 5), text.substr(3, 5));
}

TEST_F(DiskTest, neither_a_direct_read_nor_the_question_brings_anything_into_the_page_cache) {
  auto file = create("f");
  for (std::uint64_t at = 0; at < 20000; at += 4000)
    ASSERT_TRUE(write(*file, at, std::string(4000, 'x')).has_value());
  auto again = open("f", OpenMode::read_direct);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE((*again)->is_resident(0, 20000));
  if (!cool("f")) GTEST_SKIP() << "the page cache cannot be emptied or not be asked here";
  if ((*again)->is_resident(0, 20000)) GTEST_SKIP() << "no direct reads here";
  EXPECT_FALSE((*again)->is_resident(19999, 1));
  EXPECT_EQ(read_direct(**again, 5000, 9000), std::string(9000, 'x'));
  EXPECT_FALSE((*again)->is_resident(5000, 9000));
  EXPECT_EQ(read(**again, 0, 4000), std::string(4000, 'x'));
  EXPECT_TRUE((*again)->is_resident(0, 4000));
}

TEST_F(DiskTest, a_direct_read_keeps_its_memory_when_its_waiter_has_left) {
  create("f", std::string(4000, 'x'));
  auto file = open("f", OpenMode::read_direct);
  ASSERT_TRUE(file.has_value());
  for (int i = 0; i < 50; ++i) {
    auto block = std::make_shared<ReadBlock>(blocks.try_take());
    if (!*block) {
      EXPECT_TRUE(real.turn_until([&] { return blocks.outstanding() == 0; }));
      continue;
    }
    const Call soon = real.call().by(real.loop.shard().now() + Duration::nanos(1));
    const MutableByteView into = block->bytes();
    auto got = real.run((*file)->read_direct(soon, 10, 100, {into, std::move(block)}));
    if (!got) EXPECT_EQ(got.error().code, ErrorCode::timeout);
  }
  file->reset();
  EXPECT_TRUE(real.turn_until([&] { return real.pool.jobs() == 0; }));
  EXPECT_EQ(real.pool.orphaned(), 0u);
  EXPECT_EQ(blocks.outstanding(), 0u);
}

}  // namespace
}  // namespace cairn::io
