#include "services/registry/disk_room.h"

#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

TEST(DiskRoom, a_full_disk_is_known_before_the_next_change_and_after_it_has_room_again) {
  SimulatedRegistry place;
  place.options.reserve = 8u << 20;
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  EXPECT_TRUE(place.registry->writable(place.world.now()));
  // Less is left than a checkpoint may want.
  place.disk().set_capacity(place.disk().used() + (1u << 20) - 4096);
  EXPECT_FALSE(place.run(place.home().room().look(place.call())));
  EXPECT_FALSE(place.registry->writable(place.world.now()));
  EXPECT_EQ(code_of(place.advance(place.with_regions({2}))), ErrorCode::storage_full);
  EXPECT_EQ(place.size(), 2u);
  EXPECT_TRUE(place.read(1));
  // Started full: it serves reads, and says so.
  ASSERT_TRUE(place.close());
  ASSERT_TRUE(place.open());
  EXPECT_FALSE(place.registry->writable(place.world.now()));
  EXPECT_TRUE(place.read(1));
  place.disk().set_capacity(place.disk().used() + (64u << 20));
  EXPECT_TRUE(place.advance(place.with_regions({3})));
  EXPECT_TRUE(place.registry->writable(place.world.now()));
}

TEST(DiskRoom, a_disk_that_makes_no_files_is_full) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed && place.approve(*proposed, 1));
  // As the checkpointer leaves it when it cannot write what covers the last commit.
  place.status().full = true;
  place.disk().fail_call(io::sim::DiskCall::open, 1, io::sim::DiskFailure::full, true);
  EXPECT_EQ(code_of(place.commit(proposed->id)), ErrorCode::storage_full);
  EXPECT_EQ(place.size(), 1u);
  EXPECT_EQ(place.status().refused, 1u);
  place.disk().heal();
  EXPECT_TRUE(place.commit(proposed->id));
}

}  // namespace
}  // namespace cairn::registry
