#include "services/registry/pruner.h"

#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

std::string large_region(unsigned number) {
  return format::sample_item(R"({"type":"region","id":"large-)" + std::to_string(number) + R"(","title":")" +
                             std::string(1000, 'x') + R"("})");
}

class Pruning : public SimulatedRegistry {
 public:
  explicit Pruning(Retention::Policy policy = Retention::Policy::by_count)
      : SimulatedRegistry(Founding(1, {1}, 4)) {
    options.segment_size = 16u << 10;
    options.retention.policy = policy;
    options.retention.max_count = 2;
    CHECK(open());
  }
  // A version whose list stands alone, and fills a good part of a segment.
  void grow(unsigned versions) {
    for (unsigned i = 0; i < versions; ++i) {
      std::vector<std::string> items{founding().items.front()};
      for (unsigned j = 0; j < 4; ++j) items.push_back(large_region(++regions_));
      CHECK(advance(std::move(items)));
    }
  }
  std::uint64_t first_kept() {
    return ledger([](Ledger& ledger) { return ledger.first_kept(); });
  }
  std::uint64_t segments() {
    std::uint64_t count = 0;
    for (const std::string& name : disk().view().list("registry/segments")) count += name.ends_with(".seg");
    return count;
  }
  // What anybody can see of it.
  std::string look() {
    std::string out;
    for (std::uint64_t v = 0; v < size(); ++v) {
      auto one = read(v);
      out += one ? (*one)->commit + (*one)->payload : std::to_string(static_cast<int>(one.error().code));
    }
    ledger([&](Ledger& ledger) {
      out += as_text(ledger.tree().root());
      for (const auto& [id, pending] : ledger.pending()) out += format_ulid(id);
    });
    return out;
  }
  void drop(std::string_view prefix) {
    io::sim::Image image = disk().view();
    std::erase_if(image.names, [&](const auto& name) { return name.first.starts_with(prefix); });
    image.prune([](std::uint64_t) { return false; });
    disk().load(image);
  }

 private:
  unsigned regions_ = 0;
};

TEST(Pruner, only_what_a_checkpoint_covers_is_pruned) {
  Pruning place;
  place.grow(6);
  EXPECT_FALSE(*place.prune());
  EXPECT_EQ(place.first_kept(), 0u);
  ASSERT_TRUE(place.checkpoint());
  place.grow(4);
  ASSERT_TRUE(*place.prune());
  EXPECT_EQ(place.first_kept(), 7u);  // the checkpoint's size, though the policy would take more
  ASSERT_TRUE(place.checkpoint());
  ASSERT_TRUE(*place.prune());
  EXPECT_EQ(place.first_kept(), 9u);
  EXPECT_EQ(place.status().first_kept, 9u);
}

// [RL-5]
TEST(Pruner, what_was_pruned_is_gone_but_proved) {
  Pruning place;
  place.grow(8);
  const std::uint64_t before = place.segments();
  const std::string old = (*place.read(3))->commit;
  ASSERT_TRUE(place.checkpoint());
  ASSERT_TRUE(*place.prune());
  EXPECT_LT(place.segments(), before);
  for (const bool again : {false, true}) {
    EXPECT_EQ(code_of(place.read(3)), ErrorCode::pruned);
    EXPECT_TRUE(place.read(7) && place.read(8));
    place.ledger([&](Ledger& ledger) {
      const auto leaf = crypto::hash_leaf(as_bytes(old));
      EXPECT_TRUE(crypto::verify_inclusion(
          leaf, 3, ledger.size(), ledger.tree().inclusion_proof(3, ledger.size()), ledger.tree().root()));
    });
    if (!again) ASSERT_TRUE(place.crash());
  }
}

TEST(Pruner, a_state_made_anew_equals_the_one_that_was_kept_also_after_prunes) {
  Pruning place;
  for (int round = 0; round < 3; ++round) {
    place.grow(5);
    ASSERT_TRUE(place.advance(place.with_regions({1000u + static_cast<unsigned>(round)})));
    ASSERT_TRUE(place.checkpoint());
    ASSERT_TRUE(place.prune());
    ASSERT_TRUE(place.propose(place.with_regions({2000})));
    const std::string seen = place.look();
    ASSERT_TRUE(place.close());
    ASSERT_FALSE(place.file("state").empty());
    ASSERT_TRUE(place.open());
    EXPECT_EQ(place.look(), seen);
    place.stop();
    place.drop("registry/state");
    ASSERT_TRUE(place.open());
    EXPECT_TRUE(place.bad().empty());
    EXPECT_EQ(place.look(), seen);
    ASSERT_TRUE(place.verify());
    EXPECT_TRUE(place.bad().empty());
    const auto report = place.verify_files();
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->bad_version) << report->why;
    EXPECT_EQ(report->first, place.first_kept());
    EXPECT_TRUE(report->approvals_checked);
  }
}

TEST(Pruner, an_old_item_that_is_still_needed_is_carried_along) {
  Pruning place;
  place.grow(1);
  const std::string shared = sample_region(7);
  for (unsigned i = 0; i < 12; ++i) {
    std::vector<std::string> items{place.founding().items.front(), shared};
    for (unsigned j = 0; j < 4; ++j) items.push_back(large_region(5000 + 10 * i + j));
    ASSERT_TRUE(place.advance(std::move(items)));
  }
  ASSERT_TRUE(place.checkpoint());
  ASSERT_TRUE(*place.prune());
  ASSERT_FALSE(place.disk().view().find("registry/segments/0000000001.seg"));
  EXPECT_TRUE(place.read(12));
  place.stop();
  place.drop("registry/state");
  ASSERT_TRUE(place.open());
  EXPECT_TRUE(place.bad().empty());
  EXPECT_TRUE(place.read(12));
}

// The log must not count on an item that its own replay would have forgotten.
TEST(Pruner, an_item_that_only_an_expired_proposal_had_is_written_again) {
  Pruning place;
  std::vector<std::string> old{place.founding().items.front(), sample_region(7)};
  for (unsigned j = 0; j < 4; ++j) old.push_back(large_region(9000 + j));
  ASSERT_TRUE(place.advance(old));
  place.grow(8);
  ASSERT_TRUE(place.checkpoint());
  ASSERT_TRUE(place.propose(place.with_regions({7})));
  ASSERT_TRUE(*place.prune());
  ASSERT_FALSE(place.disk().view().find("registry/segments/0000000001.seg"));
  place.move_clock(place.options.proposals_ttl + Duration::seconds(1));
  ASSERT_TRUE(place.sweep());
  ASSERT_TRUE(place.advance(place.with_regions({7})));
  const std::uint64_t version = place.head().version;
  EXPECT_TRUE(place.read(version));
  place.stop();
  place.drop("registry/state");
  ASSERT_TRUE(place.open());
  EXPECT_TRUE(place.bad().empty());
  EXPECT_TRUE(place.read(version));
}

TEST(Pruner, by_age) {
  Pruning place(Retention::Policy::by_age);
  place.options.retention.max_age = Duration::seconds(3600);
  place.home().pruner().set_retention(place.options.retention);
  place.grow(4);
  place.move_clock(Duration::seconds(7200));
  place.grow(2);
  ASSERT_TRUE(place.checkpoint());
  ASSERT_TRUE(*place.prune());
  EXPECT_EQ(place.first_kept(), 5u);
}

TEST(Pruner, by_size) {
  Pruning place(Retention::Policy::by_size);
  Retention retention = place.options.retention;
  retention.target_bytes = 40u << 10;
  place.home().pruner().set_retention(retention);
  place.grow(20);
  ASSERT_TRUE(place.checkpoint());
  const std::uint64_t before = place.status().log_bytes;
  ASSERT_GT(before, 2 * retention.target_bytes);
  ASSERT_TRUE(*place.prune());
  EXPECT_GT(place.first_kept(), 0u);
  ASSERT_TRUE(place.propose(place.with_regions({1})));  // what is published follows
  EXPECT_LT(place.status().log_bytes, before);
  EXPECT_TRUE(place.read(20));
}

TEST(Pruner, none_keeps_everything) {
  Pruning place(Retention::Policy::none);
  place.grow(8);
  ASSERT_TRUE(place.checkpoint());
  EXPECT_FALSE(*place.prune());
  EXPECT_EQ(place.first_kept(), 0u);
}

}  // namespace
}  // namespace cairn::registry
