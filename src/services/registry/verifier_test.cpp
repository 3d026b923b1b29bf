#include "services/registry/verifier.h"

#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

TEST(Verifier, its_position_survives_a_restart) {
  SimulatedRegistry place(Founding(1, {1}, 4));
  ASSERT_TRUE(place.open());
  for (unsigned i = 0; i < 5; ++i) ASSERT_TRUE(place.advance(place.with_regions({i + 10})));
  ASSERT_FALSE(*place.run(place.home().verifier().verify_some(place.call(), 4)));
  ASSERT_TRUE(place.checkpoint());
  ASSERT_TRUE(place.crash());
  EXPECT_EQ(place.ledger([](Ledger& ledger) { return ledger.verified(); }), 4u);
  ASSERT_FALSE(*place.run(place.home().verifier().verify_some(place.call(), 1)));
  EXPECT_EQ(place.status().verified, 4u);
  ASSERT_TRUE(place.verify());
  EXPECT_EQ(place.status().verified, 6u);
  EXPECT_TRUE(place.bad().empty());
}

}  // namespace
}  // namespace cairn::registry
