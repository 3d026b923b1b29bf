#include "store/read_ahead.h"

#include <gtest/gtest.h>

#include <cstring>

#include "store/simulated_store.h"

namespace cairn::store {
namespace {

constexpr std::size_t group_size = crypto::group_size;
constexpr std::uint64_t step = ReadAhead::step_groups;

struct Part {
  explicit Part(std::size_t size, std::uint64_t first_group = 16) : first(first_group), bytes(sample(size)) {
    for (std::size_t at = 0; at < size; at += group_size)
      map->groups.push_back(crypto::hash_group(as_bytes(bytes).subspan(at, std::min(group_size, size - at)),
                                               first + at / group_size, false));
  }
  // All of it, as if it had just been read.
  ReadAhead read() {
    io::ReadBlock block = blocks.try_take();
    std::memcpy(block.bytes().data(), bytes.data(), bytes.size());
    const ByteView filled = block.bytes().first(bytes.size());
    return {std::move(block), filled, map, first};
  }
  std::uint64_t end() const { return first + map->groups.size(); }

  std::uint64_t first;
  std::string bytes;
  std::shared_ptr<PartMap> map = std::make_shared<PartMap>();
  io::ReadBlocks blocks{crypto::part_size, 1};
};

TEST(ReadAhead, groups_are_taken_in_order_a_step_at_a_time) {
  Part part(crypto::part_size);
  ReadAhead ahead = part.read();
  std::string all;
  for (std::uint64_t group = part.first; group < part.end(); group += step) {
    const auto taken = ahead.take(group, part.end());
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->bytes().size(), step * group_size);
    all += as_text(taken->bytes());
  }
  EXPECT_EQ(all, part.bytes);
  EXPECT_TRUE(ahead.empty());
  EXPECT_EQ(part.blocks.outstanding(), 0u);
}

TEST(ReadAhead, the_last_group_may_be_short) {
  for (const std::size_t size : {group_size + 1, 2 * group_size - 1, 3 * group_size, step * group_size + 5}) {
    Part part(size);
    ReadAhead ahead = part.read();
    std::string all;
    while (const auto taken = ahead.take(part.first + all.size() / group_size, part.end()))
      all += as_text(taken->bytes());
    EXPECT_EQ(all, part.bytes);
    EXPECT_TRUE(ahead.empty());
  }
}

TEST(ReadAhead, no_more_is_taken_than_was_asked_for) {
  Part part(3 * group_size);
  ReadAhead ahead = part.read();
  EXPECT_FALSE(ahead.take(part.first, part.first));
  EXPECT_FALSE(ahead.take(part.first + 1, part.end())) << "another group than the next";
  EXPECT_EQ(ahead.take(part.first, part.first + 1)->bytes().size(), group_size);
  EXPECT_FALSE(ahead.take(part.first, part.end())) << "was taken";
  EXPECT_EQ(ahead.take(part.first + 1, part.end())->bytes().size(), 2 * group_size);
}

TEST(ReadAhead, what_is_not_right_is_never_given_and_nothing_behind_it) {
  constexpr std::size_t size = 5 * group_size + 100;
  for (const std::size_t bad :
       {std::size_t{0}, group_size, 2 * group_size + 77, 4 * group_size - 1, size - 1}) {
    Part part(size);
    const std::string good = part.bytes;
    part.bytes[bad] ^= 1;
    ReadAhead ahead = part.read();
    std::string all;
    while (const auto taken = ahead.take(part.first + all.size() / group_size, part.end()))
      all += as_text(taken->bytes());
    EXPECT_EQ(all, good.substr(0, bad / group_size * group_size));
    EXPECT_TRUE(ahead.empty());
    EXPECT_EQ(part.blocks.outstanding(), 0u);
  }
}

TEST(ReadAhead, groups_of_another_place_are_not_right) {
  Part part(2 * group_size);
  std::swap(part.map->groups[0], part.map->groups[1]);
  ReadAhead ahead = part.read();
  EXPECT_FALSE(ahead.take(part.first, part.end()));
}

TEST(ReadAhead, what_was_taken_stays_while_it_is_held) {
  Part part(2 * group_size);
  ReadAhead ahead = part.read();
  auto taken = ahead.take(part.first, part.end());
  ahead = ReadAhead();
  EXPECT_EQ(part.blocks.outstanding(), 1u);
  EXPECT_EQ(as_text(taken->bytes()), part.bytes);
  taken.reset();
  EXPECT_EQ(part.blocks.outstanding(), 0u);
}

}  // namespace
}  // namespace cairn::store
