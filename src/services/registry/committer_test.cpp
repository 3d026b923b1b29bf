// What the committer accepts and refuses.
#include "services/registry/committer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "services/registry/simulated_registry.h"
#include "store/simulated_log.h"

namespace cairn::registry {
namespace {

// The codes of all audit records in the log. Stops the registry.
std::vector<std::string> audits(SimulatedRegistry& place) {
  store::LogOptions options;
  options.directory = place.registry->segment_directory();
  options.reserve = 0;
  place.stop();
  store::Collected found;
  store::LogReport report;
  CHECK(place.run(store::Log::open(place.call(), place.machine(), options, {}, found, report)));
  std::vector<std::string> codes;
  for (const store::Entry& entry : found.entries) {
    AuditRecord record;
    if (entry.header.kind != static_cast<std::uint8_t>(RecordKind::audit)) continue;
    CHECK(decode(as_bytes(entry.meta), record));
    codes.push_back(record.op + " " + record.code);
  }
  return codes;
}

TEST(Committer, a_replayed_approval_is_a_duplicate) {
  SimulatedRegistry place(Founding(2, {1, 2, 3}));
  ASSERT_TRUE(place.open());
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed);
  ASSERT_TRUE(place.approve(*proposed, 1));
  EXPECT_EQ(code_of(place.approve(*proposed, 1)), ErrorCode::duplicate_approval);
  ASSERT_TRUE(place.crash());
  EXPECT_EQ(code_of(place.approve(*proposed, 1)), ErrorCode::duplicate_approval);
  EXPECT_EQ(code_of(place.commit(proposed->id)), ErrorCode::quorum_failed);
  // Two at once: they meet in one group.
  const auto one = place.start(place.approve_task(proposed->id, place.sign(proposed->payload_b3, 2)));
  const auto other = place.start(place.approve_task(proposed->id, place.sign(proposed->payload_b3, 2)));
  const auto first = place.wait(one), second = place.wait(other);
  EXPECT_NE(first.has_value(), second.has_value());
  EXPECT_EQ(code_of(first ? second : first), ErrorCode::duplicate_approval);
  EXPECT_EQ((first ? first : second)->approvals, 2u);
}

TEST(Committer, a_signature_over_other_bytes_or_by_another_key_is_invalid) {
  SimulatedRegistry place(Founding(1, {1, 2}));
  ASSERT_TRUE(place.open());
  const auto proposed = place.propose(place.with_regions({1}));
  const auto other = place.propose(place.with_regions({2}));
  ASSERT_TRUE(proposed && other);
  EXPECT_EQ(code_of(place.approve(proposed->id, other->payload_b3, 1)), ErrorCode::invalid_sig);
  format::Approval forged = place.sign(proposed->payload_b3, 2);
  forged.signer_id = format::sample_signer_id(1);
  EXPECT_EQ(code_of(place.run(place.approve_task(proposed->id, forged))), ErrorCode::invalid_sig);
  EXPECT_EQ(code_of(place.approve(*proposed, 7)), ErrorCode::invalid_sig);
  format::Approval flipped = place.sign(proposed->payload_b3, 1);
  flipped.sig[5] = static_cast<char>(flipped.sig[5] ^ 1);
  EXPECT_EQ(code_of(place.run(place.approve_task(proposed->id, flipped))), ErrorCode::invalid_sig);
  EXPECT_EQ(code_of(place.commit(proposed->id)), ErrorCode::quorum_failed);
}

// [RH-2]
TEST(Committer, of_two_commits_that_race_one_wins) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    SimulatedRegistry place(Founding(1, {1}), seed);
    ASSERT_TRUE(place.open());
    const auto a = place.propose(place.with_regions({1})), b = place.propose(place.with_regions({2}));
    ASSERT_TRUE(a && b && place.approve(*a, 1) && place.approve(*b, 1));
    const auto first = place.start(place.commit_task(a->id)), second = place.start(place.commit_task(b->id));
    const auto one = place.wait(first), other = place.wait(second);
    ASSERT_NE(one.has_value(), other.has_value());
    EXPECT_EQ(code_of(one ? other : one), ErrorCode::chain_mismatch);
    EXPECT_EQ(place.size(), 2u);
    EXPECT_EQ(place.status().cas_failed, 1u);
    EXPECT_EQ(place.head(), (one ? one : other)->head);
  }
}

// [RH-1]
TEST(Committer, a_head_is_told_when_it_is_durable_and_not_before) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed && place.approve(*proposed, 1));
  place.disk().stall(Duration::seconds(3));
  const auto committing = place.start(place.commit_task(proposed->id));
  place.world.run_for(Duration::seconds(1));
  ASSERT_FALSE(committing->has_value());
  EXPECT_EQ(place.port().head().version, 0u);
  EXPECT_EQ(place.size(), 1u);
  EXPECT_EQ(code_of(place.read(1)), ErrorCode::not_found);
  ASSERT_TRUE(place.wait(committing));
  EXPECT_TRUE(place.world.run_until([&] { return place.port().head() == place.head(); }));
  EXPECT_EQ(place.head().version, 1u);
}

// An approval and the commit that counts on it may be asked for together.
TEST(Committer, a_commit_waits_for_the_approvals_that_were_asked_for_before_it) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed);
  place.disk().stall(Duration::seconds(1));
  const auto busy = place.start(place.propose_task(place.draft_of(place.with_regions({2}))));
  place.world.run_for(Duration::millis(10));
  const auto approving = place.start(place.approve_task(proposed->id, place.sign(proposed->payload_b3, 1)));
  place.world.run_for(Duration::millis(10));
  const auto committing = place.start(place.commit_task(proposed->id));
  EXPECT_TRUE(place.wait(busy));
  EXPECT_TRUE(place.wait(approving));
  EXPECT_TRUE(place.wait(committing));
}

// [RL-2]
TEST(Committer, a_commit_that_is_repeated_is_answered_the_same_also_after_a_restart) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed && place.approve(*proposed, 1));
  const auto first = place.commit(proposed->id);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->existed);
  ASSERT_TRUE(place.advance(place.with_regions({2})));
  for (const bool snapshot : {false, true}) {
    const auto again = place.commit(proposed->id);
    ASSERT_TRUE(again);
    EXPECT_TRUE(again->existed);
    EXPECT_EQ(again->head, first->head);
    EXPECT_EQ(place.size(), 3u);
    if (snapshot) ASSERT_TRUE(place.close());
    if (snapshot) ASSERT_TRUE(place.open());
    if (!snapshot) ASSERT_TRUE(place.crash());
  }
}

// [RL-3]
TEST(Committer, a_commit_ends_every_other_proposal) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const auto other = place.propose(place.with_regions({1}));
  ASSERT_TRUE(other && place.approve(*other, 1));
  ASSERT_TRUE(place.advance(place.with_regions({2})));
  EXPECT_EQ(code_of(place.commit(other->id)), ErrorCode::chain_mismatch);
  EXPECT_EQ(code_of(place.approve(*other, 1)), ErrorCode::chain_mismatch);
  ASSERT_TRUE(place.crash());
  EXPECT_EQ(code_of(place.commit(other->id)), ErrorCode::chain_mismatch);
  EXPECT_EQ(place.status().pending, 0u);
}

TEST(Committer, signers_are_rotated_by_a_commit_and_only_then) {
  SimulatedRegistry place(Founding(1, {1}));
  ASSERT_TRUE(place.open());
  auto items = place.with_regions({1});
  items[0] = format::sample_signer_set(1, {2});
  const auto rotation = place.propose(items);
  ASSERT_TRUE(rotation);
  EXPECT_EQ(code_of(place.approve(*rotation, 2)), ErrorCode::invalid_sig);
  ASSERT_TRUE(place.approve(*rotation, 1) && place.commit(rotation->id));
  const auto next = place.propose(items);
  ASSERT_TRUE(next);
  EXPECT_EQ(code_of(place.approve(*next, 1)), ErrorCode::invalid_sig);
  EXPECT_TRUE(place.approve(*next, 2));
  ASSERT_TRUE(place.crash());
  EXPECT_TRUE(place.commit(next->id));
  EXPECT_TRUE(place.verify());
  EXPECT_TRUE(place.bad().empty());
}

TEST(Committer, a_revoked_key_does_not_count) {
  SimulatedRegistry place(Founding(1, {1, 2}));
  ASSERT_TRUE(place.open());
  auto items = place.with_regions({1});
  items.push_back(format::sample_revocation(1));
  ASSERT_TRUE(place.advance(items, {1}));
  const auto next = place.propose(items);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->n, 1u);
  EXPECT_EQ(code_of(place.approve(*next, 1)), ErrorCode::revoked_key);
  EXPECT_EQ(code_of(place.commit(next->id)), ErrorCode::quorum_failed);
  ASSERT_TRUE(place.crash());
  EXPECT_EQ(code_of(place.approve(*next, 1)), ErrorCode::revoked_key);
  EXPECT_TRUE(place.approve(*next, 2));
  EXPECT_TRUE(place.commit(next->id));
}

TEST(Committer, a_superseding_version_names_the_head_and_is_committed_as_such) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  format::ProposalDraft draft = place.draft_of(place.with_regions({2}));
  draft.supersede_of = 0;
  draft.reason = "a mistake";
  EXPECT_EQ(code_of(place.run(place.propose_task(draft))), ErrorCode::conflict);
  draft.supersede_of = 1;
  const auto correction = place.run(place.propose_task(draft));
  const auto plain = place.propose(place.with_regions({3}));
  ASSERT_TRUE(correction && plain && place.approve(*correction, 1) && place.approve(*plain, 1));
  EXPECT_EQ(code_of(place.commit(plain->id, true)), ErrorCode::conflict);
  EXPECT_EQ(code_of(place.commit(correction->id, false)), ErrorCode::conflict);
  ASSERT_TRUE(place.commit(correction->id, true));
  EXPECT_TRUE((*place.read(1))->superseded);
  EXPECT_FALSE((*place.read(2))->superseded);
  ASSERT_TRUE(place.crash());
  EXPECT_TRUE((*place.read(1))->superseded);
}

TEST(Committer, what_has_expired_is_not_committed) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const auto slow = place.propose(place.with_regions({1}));
  ASSERT_TRUE(slow && place.approve(*slow, 1));
  format::ProposalDraft draft = place.draft_of(place.with_regions({2}));
  draft.expiry = WallTime{place.wall().ms - 1};
  EXPECT_EQ(code_of(place.run(place.propose_task(draft))), ErrorCode::malformed);
  draft.expiry = WallTime{place.wall().ms + 60'000};
  const auto short_lived = place.run(place.propose_task(draft));
  ASSERT_TRUE(short_lived && place.approve(*short_lived, 1));
  place.move_clock(Duration::seconds(61));
  EXPECT_EQ(code_of(place.commit(short_lived->id)), ErrorCode::conflict);
  place.move_clock(place.options.proposals_ttl);
  EXPECT_EQ(code_of(place.commit(slow->id)), ErrorCode::conflict);
  ASSERT_TRUE(place.sweep());
  EXPECT_EQ(place.status().pending, 0u);
  EXPECT_EQ(code_of(place.commit(slow->id)), ErrorCode::not_found);
  ASSERT_TRUE(place.crash());
  EXPECT_EQ(code_of(place.commit(slow->id)), ErrorCode::not_found);
  EXPECT_EQ(place.size(), 1u);
}

TEST(Committer, one_proposal_too_many_is_busy_and_none_is_lost) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  std::vector<Outcome> all;
  for (unsigned i = 0; i < 1024; ++i) {
    auto proposed = place.propose(place.with_regions({i}));
    ASSERT_TRUE(proposed) << i;
    all.push_back(std::move(*proposed));
  }
  EXPECT_EQ(code_of(place.propose(place.with_regions({5000}))), ErrorCode::busy);
  ASSERT_TRUE(place.crash());
  EXPECT_EQ(code_of(place.propose(place.with_regions({5000}))), ErrorCode::busy);
  place.ledger([&](Ledger& ledger) {
    for (const Outcome& one : all) {
      const Pending* found = ledger.find_pending(one.id);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->payload_b3, one.payload_b3);
    }
  });
  ASSERT_TRUE(place.approve(all[700], 1));
  EXPECT_TRUE(place.commit(all[700].id));
  EXPECT_TRUE(place.propose(place.with_regions({5000})));
}

TEST(Committer, time_of_commits_never_goes_back_and_a_clock_that_does_stops_nothing) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  place.move_clock(Duration::seconds(10 * 24 * 3600));
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  const WallTime late = place.head().committed_at;
  place.move_clock(Duration::seconds(-10 * 24 * 3600));
  ASSERT_LT(place.wall(), late);
  ASSERT_TRUE(place.advance(place.with_regions({2})));
  EXPECT_EQ(place.head().committed_at, late);
  EXPECT_TRUE(place.verify());
  EXPECT_TRUE(place.bad().empty());
}

TEST(Committer, a_clock_that_shows_no_year_signs_nothing_ends_nothing_and_is_read_again) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  const auto pending = place.propose(place.with_regions({2}));
  ASSERT_TRUE(pending);
  ASSERT_TRUE(place.approve(*pending, 1));
  constexpr Duration span = Duration::seconds(std::int64_t{250} * 365 * 24 * 3600);
  place.move_clock(Duration{-span.ns});
  ASSERT_LT(place.wall(), WallTime{0});
  EXPECT_EQ(code_of(place.propose(place.with_regions({3}))), ErrorCode::degraded);
  EXPECT_EQ(code_of(place.commit(pending->id)), ErrorCode::degraded);
  // The refusals left records with the time of the clock.
  ASSERT_TRUE(place.open());
  EXPECT_TRUE(place.bad().empty());
  place.move_clock(span);
  EXPECT_TRUE(place.commit(pending->id));
  EXPECT_TRUE(place.verify());
}

// [RH-3] No commit without its quorum, whoever approves in whatever order.
RC_GTEST_PROP(Committer, nothing_is_committed_without_a_quorum, ()) {
  const unsigned n = *rc::gen::inRange(1u, 6u);
  const unsigned m = *rc::gen::inRange(1u, n + 1);
  std::vector<unsigned> signers;
  for (unsigned i = 1; i <= n; ++i) signers.push_back(i);
  // Some of them are revoked first, as many as the set can do without.
  const unsigned revoked = *rc::gen::inRange(0u, n - m + 1);
  SimulatedRegistry place{Founding(m, signers)};
  RC_ASSERT(place.open());
  auto items = place.with_regions({1});
  for (unsigned i = 1; i <= revoked; ++i) items.push_back(format::sample_revocation(i));
  RC_ASSERT(place.advance(items, std::vector<unsigned>(signers.begin(), signers.begin() + m)));
  const auto proposed = place.propose(items);
  RC_ASSERT(proposed);
  std::set<unsigned> counted;
  for (const unsigned signer : *rc::gen::container<std::vector<unsigned>>(rc::gen::inRange(0u, n + 3))) {
    const bool in_force = signer > revoked && signer >= 1 && signer <= n;
    const auto approved = place.approve(*proposed, signer);
    RC_ASSERT(approved.has_value() == (in_force && counted.insert(signer).second));
    if (counted.size() >= m) continue;
    RC_ASSERT(code_of(place.commit(proposed->id)) == ErrorCode::quorum_failed);
    RC_ASSERT(place.size() == 2u);
  }
  RC_ASSERT(place.commit(proposed->id).has_value() == (counted.size() >= m));
  RC_ASSERT(place.verify());
  RC_ASSERT(place.bad().empty());
}

// [RH-4]
TEST(Committer, every_refusal_leaves_a_record) {
  SimulatedRegistry place(Founding(2, {1, 2}));
  ASSERT_TRUE(place.open());
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed);
  EXPECT_FALSE(place.approve(*proposed, 9));
  EXPECT_TRUE(place.approve(*proposed, 1));
  EXPECT_FALSE(place.approve(*proposed, 1));
  EXPECT_FALSE(place.commit(proposed->id));
  EXPECT_FALSE(place.commit(Ulid{1, 2}));
  EXPECT_EQ(place.status().refused, 4u);
  EXPECT_EQ(audits(place), (std::vector<std::string>{"approve invalid_sig", "approve duplicate_approval",
                                                     "commit quorum_failed", "commit not_found"}));
}

// Between two pieces of a file others of the shard have their turns; the pieces are too small for a write.
// [RH-1] [BE-2] Killed anywhere between asking and answering: wholly there, or absent, and the chain
// verifies.
TEST(Committer, a_commit_that_a_crash_met_is_wholly_there_or_absent) {
  bool there = false, absent = false;
  for (std::uint32_t steps = 0; steps < 40; ++steps) {
    SimulatedRegistry place(Founding(1, {1}), steps + 1);
    ASSERT_TRUE(place.open());
    const auto proposed = place.propose(place.with_regions({1}));
    ASSERT_TRUE(proposed && place.approve(*proposed, 1));
    const auto committing = place.start(place.commit_task(proposed->id));
    std::uint32_t left = steps;
    place.world.run_until([&] { return committing->has_value() || left-- == 0; });
    const bool answered = committing->has_value();
    ASSERT_TRUE(place.crash());
    ASSERT_TRUE(place.bad().empty());
    const bool found = place.size() == 2;
    if (answered) EXPECT_TRUE(found);
    (found ? there : absent) = true;
    ASSERT_TRUE(place.verify());
    const auto report = place.verify_files();
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->bad_version) << report->why;
    const auto again = place.commit(proposed->id);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->existed, found);
  }
  EXPECT_TRUE(there);
  EXPECT_TRUE(absent);
}

TEST(Committer, a_slow_sync_makes_it_unwritable_and_the_next_fast_one_writable_again) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const auto writable = [&] { return place.registry->writable(place.world.now()); };
  EXPECT_TRUE(writable());
  place.disk().stall(Duration::seconds(5));
  const auto slow = place.start(place.propose_task(place.draft_of(place.with_regions({1}))));
  place.world.run_for(Duration::seconds(2));
  ASSERT_FALSE(slow->has_value());
  EXPECT_FALSE(writable());
  EXPECT_TRUE(place.read(0));  // reads go on
  ASSERT_TRUE(place.wait(slow));
  EXPECT_FALSE(writable());
  ASSERT_TRUE(place.propose(place.with_regions({2})));
  EXPECT_TRUE(writable());
}

TEST(Committer, a_fenced_log_takes_nothing_and_is_read) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  place.disk().fail_call(io::sim::DiskCall::sync_data, 1, io::sim::DiskFailure::error, true);
  EXPECT_EQ(code_of(place.propose(place.with_regions({2}))), ErrorCode::degraded);
  EXPECT_FALSE(place.registry->writable(place.world.now()));
  EXPECT_EQ(code_of(place.propose(place.with_regions({3}))), ErrorCode::degraded);
  EXPECT_TRUE(place.read(1));
  place.disk().heal();
  ASSERT_TRUE(place.crash());
  EXPECT_TRUE(place.advance(place.with_regions({4})));
}

TEST(Committer, what_is_larger_than_the_log_takes_is_refused_and_a_burst_is_written_in_parts) {
  SimulatedRegistry place;
  place.options.segment_size = 16u << 10;
  ASSERT_TRUE(place.open());
  std::vector<unsigned> many;
  for (unsigned i = 0; i < 200; ++i) many.push_back(i);
  EXPECT_EQ(code_of(place.propose(place.with_regions(many))), ErrorCode::body_cap);
  place.disk().stall(Duration::seconds(1));
  std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> burst;
  for (unsigned i = 0; i < 100; ++i)
    burst.push_back(place.start(place.propose_task(place.draft_of(place.with_regions({i, i + 500})))));
  for (auto& one : burst) EXPECT_TRUE(place.wait(one));
  ASSERT_TRUE(place.crash());
  EXPECT_EQ(place.status().pending, 100u);
}

}  // namespace
}  // namespace cairn::registry
