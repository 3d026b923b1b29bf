#include "services/registry/checkpointer.h"

#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

TEST(Checkpointer, roots_are_signed_and_consistent) {
  SimulatedRegistry place(Founding(1, {1}, 4));
  ASSERT_TRUE(place.open());
  std::map<std::uint64_t, crypto::MerkleHash> roots;
  for (unsigned i = 0; i < 5; ++i) {
    ASSERT_TRUE(place.checkpoint());
    const auto note = crypto::parse_note(place.file("checkpoint"));
    ASSERT_TRUE(note);
    EXPECT_TRUE(crypto::is_signed_by(*note, place.registry->note_verifier()));
    const auto signed_head = crypto::parse_checkpoint(note->text);
    ASSERT_TRUE(signed_head);
    EXPECT_EQ(signed_head->size, place.size());
    roots[signed_head->size] = signed_head->root;
    ASSERT_TRUE(place.advance(place.with_regions({i + 10})));
  }
  place.ledger([&](Ledger& ledger) {
    for (const auto& [from, root] : roots)
      EXPECT_TRUE(crypto::verify_consistency(from, ledger.size(),
                                             ledger.tree().consistency_proof(from, ledger.size()), root,
                                             ledger.tree().root()));
  });
}

TEST(Checkpointer, the_tasks_sign_within_a_second_after_a_commit) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  place.start_tasks();
  ASSERT_TRUE(
      place.world.run_until([&] { return place.status().checkpoint_size == 1; }, Duration::seconds(1)));
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  EXPECT_TRUE(
      place.world.run_until([&] { return place.status().checkpoint_size == 2; }, Duration::seconds(1)));
}

TEST(Checkpointer, nothing_that_was_signed_changes_over_restarts) {
  SimulatedRegistry place(Founding(1, {1}, 4));
  ASSERT_TRUE(place.open());
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(place.advance(place.with_regions({i + 10})));
    ASSERT_TRUE(place.checkpoint());
    const std::string note = place.file("checkpoint");
    ASSERT_TRUE(place.crash());
    ASSERT_TRUE(place.checkpoint());
    EXPECT_EQ(place.file("checkpoint"), note);
  }
}

}  // namespace
}  // namespace cairn::registry
