// What a start takes; damage_test.cpp has what it does about a log that has lost something.
#include "services/registry/recovery.h"

#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

TEST(Recovery, a_genesis_with_a_key_that_verifies_nothing_begins_no_registry) {
  Founding founding(1, {1});
  format::DescriptorSet set = format::decode_descriptor_set(as_bytes(founding.genesis.payload)).value();
  std::string neutral(format::approving_key_size, '\0');
  neutral[0] = 1;
  set.items = {
      format::encode_signer_set(
          1, std::vector{format::sample_signer(1),
                         format::Signer{"z", std::nullopt, std::string(format::approving_algo), neutral}})
          .value()};
  founding.genesis = {format::encode(set), format::encode(format::SampleRegistry::commit_of(set, {1}))};
  ASSERT_TRUE(format::check_genesis(founding.genesis));
  SimulatedRegistry place(founding);
  EXPECT_EQ(code_of(place.open()), ErrorCode::malformed);
}

TEST(Recovery, another_genesis_is_refused) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  place.stop();
  place.options.genesis = Founding(1, {5}).genesis;
  EXPECT_EQ(code_of(place.open()), ErrorCode::integrity);
}

}  // namespace
}  // namespace cairn::registry
