#include "services/registry/files.h"

#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

TEST(ReplaceFile, the_shard_is_left_between_two_pieces) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  constexpr unsigned pieces = 64;
  unsigned asked = 0, turns = 0, turns_before_last = 0;
  const auto other = [](unsigned* count) -> Task<> {
    ++*count;
    co_return;
  };
  const std::function<std::optional<std::string>()> next = [&]() -> std::optional<std::string> {
    turns_before_last = turns;
    if (asked == pieces) return std::nullopt;
    place.node.scope().spawn("other", other(&turns));
    return std::string(1, static_cast<char>('0' + asked++ % 10));
  };
  const auto writes = place.disk().calls(io::sim::DiskCall::write);
  ASSERT_TRUE(place.run(replace_file(place.call(), place.machine(), "registry/pieces", next)));
  EXPECT_EQ(place.disk().calls(io::sim::DiskCall::write), writes + 1);
  // Whose turn it is, is drawn by lot.
  EXPECT_GE(turns_before_last, pieces / 4);
  EXPECT_EQ(place.file("pieces").size(), pieces);
}

TEST(ReplaceFile, what_comes_in_large_pieces_is_written_as_it_comes) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  unsigned asked = 0;
  std::string expected;
  const std::function<std::optional<std::string>()> next = [&]() -> std::optional<std::string> {
    if (asked == 5) return std::nullopt;
    ++asked;
    const std::string piece((asked % 2 == 0 ? 1u << 20 : 10u) + asked, static_cast<char>('a' + asked));
    expected += piece;
    return piece;
  };
  ASSERT_TRUE(place.run(replace_file(place.call(), place.machine(), "registry/pieces", next)));
  EXPECT_EQ(place.file("pieces"), expected);
  place.kill();
  place.disk().lose_unsynced();
  EXPECT_EQ(place.file("pieces"), expected);
}

}  // namespace
}  // namespace cairn::registry
