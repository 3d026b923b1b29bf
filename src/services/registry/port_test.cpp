#include "services/registry/port.h"

#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

// [RH-6]
TEST(Port, commits_go_on_while_a_subscriber_never_reads_and_its_lag_is_counted) {
  SimulatedRegistry place;
  place.options.channel_bound = 4;
  ASSERT_TRUE(place.open());
  {
    Broadcast<Head>::Receiver sleeper(place.port().committed());
    for (unsigned i = 0; i < 7; ++i) ASSERT_TRUE(place.advance(place.with_regions({i})));
    ASSERT_TRUE(place.world.run_until([&] { return place.port().head().version == 7; }));
    EXPECT_EQ(code_of(sleeper.try_recv()), ErrorCode::lagged);
    EXPECT_EQ(sleeper.missed(), 3u);
    EXPECT_EQ(place.port().committed().lagged_total(), 3u);
    for (std::uint64_t version = 4; version <= 7; ++version) {
      const auto head = sleeper.try_recv();
      ASSERT_TRUE(head && *head);
      EXPECT_EQ((*head)->version, version);
    }
  }
}

TEST(Port, every_shard_hears_of_every_head) {
  SimulatedRegistry place(Founding(), 3, 3);
  ASSERT_TRUE(place.open());
  const auto waited = place.start(place.port(2).wait_past(place.call(2), 1), 2);
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  ASSERT_TRUE(place.advance(place.with_regions({2})));
  const auto head = place.wait(waited);
  ASSERT_TRUE(head);
  EXPECT_EQ(*head, place.head());
  ASSERT_TRUE(place.world.run_until([&] { return place.port(1).head() == place.head(); }));
  // Changes are asked for on any of them.
  const auto proposed = place.run(place.propose_task(place.draft_of(place.with_regions({3})), 1), 1);
  ASSERT_TRUE(proposed);
  ASSERT_TRUE(place.run(place.approve_task(proposed->id, place.sign(proposed->payload_b3, 1), 2), 2));
  ASSERT_TRUE(place.run(place.commit_task(proposed->id, false, 1), 1));
  EXPECT_EQ((*place.read(3, 2))->head, place.head());
}

TEST(Port, nobody_has_missed_a_head_that_its_shard_was_not_told) {
  SimulatedRegistry place(Founding(), 1, 2);
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  ASSERT_TRUE(place.world.run_until([&] { return place.port(1).told().version == 1; }));
  EXPECT_EQ(place.port(1).told_since(0), 2);
  EXPECT_EQ(place.port(1).told_since(1), 1);
  EXPECT_EQ(place.port(1).told_since(2), 0);
  // A client on this shard may know of later heads from another one.
  EXPECT_EQ(place.port(1).told_since(3), 0);
  EXPECT_EQ(place.port(1).told_since(~std::uint64_t{0}), 0);
}

TEST(Port, what_is_not_there_is_not_found) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  EXPECT_EQ(code_of(place.read(1)), ErrorCode::not_found);
  EXPECT_TRUE(place.read(0));
  EXPECT_EQ(place.port().find_version(1), nullptr);
  EXPECT_NE(place.port().find_version(0), nullptr);
}

// [RH-3]
TEST(Port, a_commit_may_bring_its_approvals_and_they_count_like_any_other) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const unsigned m = place.ledger([](Ledger& l) { return l.governance().m; });
  const auto commit_with = [&](Ulid id, std::vector<format::Approval> approvals) {
    return place.run(place.port().commit(place.call(), "committer", id, false, std::move(approvals)));
  };
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed);
  std::vector<format::Approval> enough;
  for (unsigned i = 0; i < m; ++i) enough.push_back(place.sign(proposed->payload_b3, i + 1));

  auto twice = enough;
  twice.push_back(enough.front());
  EXPECT_EQ(code_of(commit_with(proposed->id, twice)), ErrorCode::duplicate_approval);
  auto wrong = enough;
  wrong.front() = place.sign(Address{}, 1);
  EXPECT_EQ(code_of(commit_with(proposed->id, wrong)), ErrorCode::invalid_sig);
  EXPECT_EQ(place.head().version, 0u);

  const auto done = commit_with(proposed->id, enough);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->head.version, 1u);
  const auto artifact = place.read(1);
  ASSERT_TRUE(artifact);
  const auto commit = format::decode_commit(as_bytes((*artifact)->commit));
  ASSERT_TRUE(commit);
  EXPECT_EQ(commit->approvals.size(), m);
}

// Checking a signature costs more than all else about a commit that comes too late.
TEST(Port, of_commits_that_race_those_that_lose_are_refused_before_their_signatures_are_checked) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const unsigned m = place.ledger([](Ledger& l) { return l.governance().m; });
  const auto first = place.propose(place.with_regions({1})), second = place.propose(place.with_regions({2}));
  ASSERT_TRUE(first && second);
  std::vector<format::Approval> enough;
  for (unsigned i = 0; i < m; ++i) enough.push_back(place.sign(first->payload_b3, i + 1));
  place.disk().stall(Duration::seconds(1));
  const auto wins =
      place.start(place.port().commit(place.call(), "committer", first->id, false, std::move(enough)));
  place.world.run_for(Duration::millis(100));
  const auto loses = place.start(
      place.port().commit(place.call(), "committer", second->id, false, {place.sign(Address{}, 1)}));
  EXPECT_TRUE(place.wait(wins));
  EXPECT_EQ(code_of(place.wait(loses)), ErrorCode::chain_mismatch);
}

// [E-2]
TEST(Port, a_change_whose_deadline_passed_is_never_begun) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  place.disk().stall(Duration::seconds(3));
  const auto first = place.start(place.propose_task(place.draft_of(place.with_regions({1}))));
  place.world.run_for(Duration::millis(100));
  const Call impatient = place.call().by(place.world.now() + Duration::millis(100));
  const auto second =
      place.run(place.port().propose(impatient, "proposer", place.draft_of(place.with_regions({2}))));
  EXPECT_FALSE(second);
  ASSERT_TRUE(place.wait(first));
  EXPECT_TRUE(place.propose(place.with_regions({3})));
  EXPECT_EQ(place.status().pending, 2u);
}

TEST(Port, a_disk_that_cannot_be_read_is_known_until_it_reads_again) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  const auto can_read = [&] { return place.run(place.port().can_read(place.call())); };
  EXPECT_TRUE(can_read());
  place.disk().fail_call(io::sim::DiskCall::read, 1, io::sim::DiskFailure::error, true);
  EXPECT_EQ(code_of(place.read(1)), ErrorCode::io_failed);
  EXPECT_FALSE(can_read());
  EXPECT_FALSE(can_read());
  place.disk().heal();
  EXPECT_TRUE(can_read());
  EXPECT_TRUE(place.read(1));
  // What is asked for and not there says nothing of the disk.
  EXPECT_EQ(code_of(place.read(7)), ErrorCode::not_found);
  EXPECT_TRUE(can_read());
}

TEST(Port, a_change_is_counted_by_what_became_of_it_whoever_still_waits) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed && place.approve(*proposed, 1));
  EXPECT_EQ(place.status().accepted, 2u);
  place.disk().stall(Duration::seconds(3));
  const Call impatient = place.call().by(place.world.now() + Duration::millis(100));
  EXPECT_EQ(code_of(place.run(place.port().commit(impatient, "committer", proposed->id, false))),
            ErrorCode::timeout);
  ASSERT_TRUE(place.world.run_until([&] { return place.size() == 2; }));
  place.world.run_for(Duration::seconds(1));
  EXPECT_EQ(place.status().committed, 1u);
  EXPECT_EQ(place.status().refused, 0u);
  // Asked for again it is answered, and no second one.
  const auto again = place.commit(proposed->id);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->existed);
  EXPECT_EQ(place.status().committed, 1u);
  EXPECT_FALSE(place.approve(*proposed, 1));
  EXPECT_EQ(place.status().refused, 1u);
}

TEST(Port, an_artifact_is_what_was_signed) {
  SimulatedRegistry place(Founding(2, {1, 2, 3}, 4));
  ASSERT_TRUE(place.open());
  for (unsigned i = 0; i < 5; ++i) ASSERT_TRUE(place.advance(place.with_regions({i + 10})));
  format::ChainVerifier verifier(place.founding().roots);
  for (std::uint64_t version = 0; version < place.size(); ++version) {
    const auto read = place.read(version);
    ASSERT_TRUE(read);
    ASSERT_TRUE(verifier.take(as_bytes((*read)->commit), as_bytes((*read)->payload))) << verifier.why();
  }
  EXPECT_EQ(verifier.root(), place.ledger([](Ledger& ledger) { return ledger.tree().root(); }));
}

}  // namespace
}  // namespace cairn::registry
