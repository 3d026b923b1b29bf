#include "io/read_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "io/file.h"

namespace cairn::io {
namespace {

constexpr std::size_t sector = File::direct_alignment;

TEST(ReadBlocks, no_more_than_the_bound_are_out_and_none_is_waited_for) {
  ReadBlocks blocks(2 * sector, 2);
  EXPECT_EQ(blocks.outstanding(), 0u);
  ReadBlock first = blocks.try_take(), second = blocks.try_take();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(blocks.outstanding(), 2u);
  EXPECT_FALSE(blocks.try_take());
  second = ReadBlock();
  EXPECT_EQ(blocks.outstanding(), 1u);
  EXPECT_TRUE(blocks.try_take());
}

TEST(ReadBlocks, blocks_are_aligned_and_apart) {
  ReadBlocks blocks(3 * sector, 3);
  std::array<ReadBlock, 3> all{blocks.try_take(), blocks.try_take(), blocks.try_take()};
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].bytes().size(), 3 * sector);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all[i].bytes().data()) % sector, 0u);
    std::ranges::fill(all[i].bytes(), static_cast<std::byte>(i));
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(std::ranges::all_of(all[i].bytes(),
                                    [i](std::byte byte) { return byte == static_cast<std::byte>(i); }));
}

TEST(ReadBlocks, the_one_given_back_last_is_taken_first) {
  ReadBlocks blocks(sector, 4);
  ReadBlock kept = blocks.try_take(), gone = blocks.try_take();
  const std::byte* const where = gone.bytes().data();
  gone = ReadBlock();
  EXPECT_EQ(blocks.try_take().bytes().data(), where);
}

TEST(ReadBlocks, a_block_is_back_when_its_last_owner_has_left) {
  ReadBlocks blocks(sector, 1);
  ReadBlock one = blocks.try_take();
  ReadBlock other = one.share();
  void* const third = one.share().detach();
  one = ReadBlock();
  other = ReadBlock();
  EXPECT_FALSE(blocks.try_take());
  ReadBlock::release(third);
  EXPECT_TRUE(blocks.try_take());
}

TEST(ReadBlocks, a_block_outlives_where_it_came_from) {
  std::optional<ReadBlocks> blocks(std::in_place, sector, 2);
  ReadBlock block = blocks->try_take();
  blocks.reset();
  std::ranges::fill(block.bytes(), std::byte{1});
  EXPECT_EQ(block.bytes().back(), std::byte{1});
}

}  // namespace
}  // namespace cairn::io
