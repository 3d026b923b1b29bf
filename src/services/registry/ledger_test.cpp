#include "services/registry/ledger.h"

#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

// All of a copy that was begun; `between` may change the ledger after each piece.
std::string whole_copy(Ledger& ledger, std::size_t slice, const std::function<void()>& between = [] {}) {
  SnapshotSeal seal;
  std::string out;
  while (const auto piece = seal.take(ledger.copy_some(slice))) {
    out += *piece;
    between();
  }
  return out;
}

// A registry with something of everything in its ledger.
class Busy : public SimulatedRegistry {
 public:
  Busy() : SimulatedRegistry(Founding(1, {1}, 4)) {
    CHECK(open());
    CHECK(advance(with_regions({10})));
    format::ProposalDraft correction = draft_of(with_regions({11}));
    correction.supersede_of = 1;
    correction.reason = "a mistake";
    CHECK(advance(std::move(correction)));
    CHECK(advance_in_full(20));
    CHECK(checkpoint());
    stale = propose(with_regions({30}))->id;
    CHECK(advance(with_regions({31})));
    auto old = propose(with_regions({40}));
    expired = old->id;
    move_clock(options.proposals_ttl + Duration::seconds(1));
    CHECK(sweep());
    pending = *propose(with_regions({50}));
    CHECK(approve(pending, 1));
    committed = advance_id();
    pending = *propose(with_regions({51}));
    CHECK(approve(pending, 1));
  }
  Ulid advance_id() {
    const auto proposed = propose(with_regions({60}));
    CHECK(proposed && approve(*proposed, 1) && commit(proposed->id));
    return proposed->id;
  }
  std::string bytes() {
    return ledger([](Ledger& l) {
      CHECK(l.begin_copy({7, {3, 4096}}));
      return whole_copy(l, 3);
    });
  }
  Ulid stale, expired, committed;
  Outcome pending;
};

TEST(Ledger, a_snapshot_gives_back_the_same_ledger) {
  Busy place;
  const std::string bytes = place.bytes();
  auto decoded = Ledger::decode(as_bytes(bytes));
  ASSERT_TRUE(decoded);
  auto& [copy, point] = *decoded;
  copy.settle();
  EXPECT_EQ(point.sequence, 7u);
  EXPECT_EQ(point.next, (store::Position{3, 4096}));
  place.ledger([&](Ledger& ledger) {
    ASSERT_EQ(copy.size(), ledger.size());
    EXPECT_EQ(copy.head(), ledger.head());
    EXPECT_EQ(copy.tree().root(), ledger.tree().root());
    for (std::uint64_t v = 0; v < ledger.size(); ++v) EXPECT_EQ(copy.version(v), ledger.version(v)) << v;
    EXPECT_TRUE(copy.version(1).superseded);
    EXPECT_EQ(copy.head_items(), ledger.head_items());
    EXPECT_EQ(copy.base_items(), ledger.base_items());
    EXPECT_EQ(copy.base(), ledger.base());
    EXPECT_EQ(copy.governance(), ledger.governance());
    EXPECT_EQ(copy.checkpoint()->note, ledger.checkpoint()->note);
    EXPECT_EQ(copy.pending_items(), ledger.pending_items());
    ASSERT_EQ(copy.pending().size(), 1u);
    EXPECT_EQ(copy.find_pending(place.pending.id)->approvals,
              ledger.find_pending(place.pending.id)->approvals);
    EXPECT_EQ(copy.find_pending(place.pending.id)->items, ledger.find_pending(place.pending.id)->items);
    for (const Hash& hash : ledger.head_items())
      EXPECT_EQ(copy.find_item(hash)->place, ledger.find_item(hash)->place);
  });
  EXPECT_EQ(copy.find_ended(place.stale), Ended::stale);
  EXPECT_EQ(copy.find_ended(place.expired), Ended::expired);
  EXPECT_EQ(copy.find_committed(place.committed), copy.size() - 1);
}

TEST(Ledger, a_snapshot_with_any_flipped_bit_is_refused) {
  Busy place;
  const std::string bytes = place.bytes();
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 3) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(Ledger::decode(as_bytes(flipped))) << bit;
  }
  for (std::size_t length = 0; length < bytes.size(); length += 7)
    ASSERT_FALSE(Ledger::decode(as_bytes(bytes.substr(0, length)))) << length;
}

// What is in a ledger, as far as the regions go that these tests make.
std::string describe(const Ledger& ledger) {
  std::string out = std::to_string(ledger.size()) + " " + std::to_string(ledger.first_kept()) + " " +
                    std::to_string(ledger.base()) + "\n";
  for (std::uint64_t v = 0; v < ledger.size(); ++v) {
    const VersionEntry& entry = ledger.version(v);
    out += format_address(entry.commit_b3) + (entry.superseded ? "s" : "") + (entry.full ? "f" : "") +
           format_ulid(entry.id) + "\n";
  }
  for (const Hash& hash : ledger.head_items()) out += format_hex(hash) + "\n";
  for (const auto& [id, pending] : ledger.pending())
    out += format_ulid(id) + " " + std::to_string(pending.approvals.size()) + "\n";
  for (unsigned number = 0; number < 400; ++number)
    if (const ItemEntry* item = ledger.find_item(crypto::hash_object(as_bytes(sample_region(number))).bytes))
      out += std::to_string(number) + ": " + std::to_string(item->place.at.offset) + " " +
             std::to_string(item->last_version) + " " + std::to_string(item->proposals) + "\n";
  return out + format_hex(ledger.tree().root());
}

// Commits, proposals, approvals, ends and cuts while the copy is under way: it knows of none of them.
TEST(Ledger, a_copy_in_slices_is_of_the_moment_when_it_was_begun) {
  for (const std::size_t slice : {1u, 2u, 5u, 1000u}) {
    Busy place;
    ASSERT_TRUE(place.advance_in_full(70) && place.advance_in_full(80) && place.checkpoint());
    Retention retention;
    retention.policy = Retention::Policy::by_count;
    retention.max_count = 1;
    place.home().pruner().set_retention(retention);
    format::ProposalDraft draft = place.draft_of(place.with_regions({90}));
    draft.supersede_of = place.ledger([](Ledger& ledger) { return ledger.head().version; });
    draft.reason = "a mistake";
    place.pending = *place.run(place.propose_task(draft));
    ASSERT_TRUE(place.propose(place.with_regions({95})));  // ended by the commit, and its item goes
    const std::string expected = place.ledger([](Ledger& ledger) { return describe(ledger); });
    ASSERT_TRUE(place.ledger([](Ledger& ledger) { return ledger.begin_copy({7, {3, 4096}}); }));
    SnapshotSeal seal;
    std::string bytes;
    unsigned pieces = 0;
    for (;;) {
      const auto piece = seal.take(place.ledger([&](Ledger& ledger) { return ledger.copy_some(slice); }));
      if (!piece) break;
      bytes += *piece;
      ++pieces;
      if (pieces == 1) ASSERT_TRUE(place.approve(place.pending, 1));
      if (pieces == 2) ASSERT_TRUE(place.commit(place.pending.id, true));
      if (pieces == 3) ASSERT_TRUE(place.propose(place.with_regions({91, 92})));
      if (pieces == 4) ASSERT_TRUE(place.prune());
      if (pieces > 4 && pieces < 40) {
        std::vector<unsigned> many;
        for (unsigned i = 0; i < 8; ++i) many.push_back(100 + pieces * 8 + i);
        ASSERT_TRUE(place.advance(place.with_regions(many)));
      }
    }
    EXPECT_GE(pieces, slice == 1 ? 20u : 3u);
    auto decoded = Ledger::decode(as_bytes(bytes));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(describe(decoded->first), expected) << slice;
    // Nothing is put aside any more, and the next copy is of now.
    const std::string now = place.ledger([](Ledger& ledger) { return describe(ledger); });
    const std::string again = place.bytes();
    EXPECT_EQ(describe(Ledger::decode(as_bytes(again))->first), now);
  }
}

TEST(Ledger, a_copy_in_slices_holds_the_ledger_for_no_more_than_a_slice) {
  SimulatedRegistry place(Founding(1, {1}, 2000));
  ASSERT_TRUE(place.open());
  std::size_t pieces = 0, longest = 0;
  ASSERT_TRUE(place.ledger([](Ledger& ledger) { return ledger.begin_copy({7, {3, 4096}}); }));
  while (const auto piece = place.ledger([](Ledger& ledger) { return ledger.copy_some(64); })) {
    // The first one has the lists of head and base, which are no longer than a set is.
    if (pieces++ > 0) longest = std::max(longest, piece->size());
  }
  EXPECT_GE(pieces, 2000u / 64);
  EXPECT_LE(longest, 64u * 128);
}

// [RL-1]
TEST(Ledger, a_commit_that_skips_or_repeats_a_version_does_not_follow) {
  format::SampleRegistry chain(1, {1});
  chain.append({format::sample_signer_set(1, {1})}, {1});
  const auto commit = [&](std::size_t version) {
    return encode(CommitRecord{format::sample_time, make_ulid(format::sample_time, version, 1), "who",
                               chain.versions[version].commit});
  };
  const auto kind = static_cast<std::uint8_t>(RecordKind::commit);
  Ledger ledger;
  ASSERT_TRUE(ledger.apply(kind, as_bytes(commit(0)), {1, 4096}));
  ASSERT_TRUE(ledger.apply(kind, as_bytes(commit(1)), {1, 5096}));
  EXPECT_EQ(code_of(ledger.apply(kind, as_bytes(commit(1)), {1, 6096})), ErrorCode::integrity);
  EXPECT_EQ(code_of(ledger.apply(kind, as_bytes(commit(0)), {1, 6096})), ErrorCode::integrity);
  EXPECT_EQ(ledger.size(), 2u);
}

TEST(Ledger, a_commit_over_another_predecessor_does_not_follow) {
  format::SampleRegistry one(1, {1}), other(1, {2});
  one.append({format::sample_signer_set(1, {1})}, {1});
  other.append({format::sample_signer_set(1, {2})}, {2});
  const auto kind = static_cast<std::uint8_t>(RecordKind::commit);
  const auto item = static_cast<std::uint8_t>(RecordKind::item);
  const auto proposal = static_cast<std::uint8_t>(RecordKind::proposal);
  Ledger ledger;
  const auto set = format::decode_descriptor_set(as_bytes(one.versions[0].payload)).value();
  ProposalRecord record;
  record.id = make_ulid(format::sample_time, 1, 1);
  record.who = "who";
  record.payload_b3 = crypto::hash_object(as_bytes(one.versions[0].payload));
  record.set = set;
  record.set.items.clear();
  record.list.runs = {{0, 0, crypto::hash_object(as_bytes(set.items[0])).bytes}};
  ASSERT_TRUE(ledger.apply(item, as_bytes(set.items[0]), {1, 4096}));
  ASSERT_TRUE(ledger.apply(proposal, as_bytes(encode(record)), {1, 5000}));
  ASSERT_TRUE(ledger.apply(kind, as_bytes(encode(CommitRecord{{}, record.id, "who", one.versions[0].commit})),
                           {1, 6000}));
  EXPECT_TRUE(ledger.bad().empty());
  EXPECT_EQ(
      code_of(ledger.apply(
          kind, as_bytes(encode(CommitRecord{{}, record.id, "who", other.versions[1].commit})), {1, 7000})),
      ErrorCode::integrity);
}

TEST(Ledger, a_commit_behind_a_gap_marks_what_is_missing) {
  format::SampleRegistry chain(1, {1});
  for (int i = 0; i < 3; ++i) chain.append({format::sample_signer_set(1, {1})}, {1});
  const auto kind = static_cast<std::uint8_t>(RecordKind::commit);
  Ledger ledger;
  for (const std::size_t version : {0u, 3u})
    ASSERT_TRUE(ledger.apply(
        kind,
        as_bytes(encode(CommitRecord{{}, make_ulid({}, version, 1), "who", chain.versions[version].commit})),
        {1, 4096}));
  ledger.settle();
  EXPECT_EQ(ledger.size(), 4u);
  EXPECT_EQ(ledger.broken(), (std::set<std::uint64_t>{1, 2}));
  EXPECT_EQ(ledger.provable(), 1u);
  EXPECT_TRUE(ledger.bad().contains(1) && ledger.bad().contains(2));
  // The leaves may come from elsewhere, and only the right ones are taken.
  crypto::MerkleTree whole;
  std::map<std::uint64_t, crypto::MerkleHash> leaves;
  for (std::uint64_t v = 0; v < 4; ++v) {
    leaves[v] = crypto::hash_leaf(as_bytes(chain.versions[v].commit));
    whole.append(leaves[v]);
  }
  auto wrong = leaves;
  wrong[1][0] ^= std::byte{1};
  EXPECT_FALSE(ledger.heal(wrong, 4, whole.root()));
  EXPECT_EQ(ledger.provable(), 1u);
  EXPECT_TRUE(ledger.heal(leaves, 4, whole.root()));
  EXPECT_EQ(ledger.provable(), 4u);
  EXPECT_EQ(ledger.tree().root(), whole.root());
}

TEST(Ledger, a_checkpoint_of_more_than_is_there_shows_what_was_lost_and_ended_with_it) {
  Busy place;
  const auto other = place.propose(place.with_regions({52}));
  ASSERT_TRUE(other);
  place.ledger([&](Ledger& ledger) {
    const std::uint64_t size = ledger.size();
    ASSERT_TRUE(ledger.apply(static_cast<std::uint8_t>(RecordKind::checkpoint),
                             as_bytes(encode(CheckpointRecord{{}, "note", size + 1, 0})), {1, 4096}));
    EXPECT_EQ(ledger.size(), size + 1);
    EXPECT_TRUE(ledger.bad().contains(size));
    EXPECT_EQ(ledger.provable(), size);
    EXPECT_TRUE(ledger.pending().empty());
    EXPECT_EQ(ledger.find_ended(other->id), Ended::stale);
  });
}

TEST(Ledger, leaves_without_governors_prune_nothing_yet) {
  Busy place;
  place.ledger([](Ledger& ledger) {
    const auto kind = static_cast<std::uint8_t>(RecordKind::pruned);
    PrunedRecord part;
    part.below = 1;
    part.leaves = {ledger.tree().leaf(0)};
    ASSERT_TRUE(ledger.apply(kind, as_bytes(encode(part)), {1, 4096}));
    EXPECT_EQ(ledger.first_kept(), 0u);
    EXPECT_GT(ledger.version(0).commit.meta_size, 0u);
    PrunedRecord last;
    last.first = 1;
    last.below = 3;
    last.leaves = {ledger.tree().leaf(1), ledger.tree().leaf(2)};
    last.governors = ledger.governors();
    ASSERT_TRUE(ledger.apply(kind, as_bytes(encode(last)), {1, 5096}));
    EXPECT_EQ(ledger.first_kept(), 3u);
    EXPECT_EQ(ledger.version(0).commit.meta_size, 0u);
    EXPECT_EQ(ledger.version(2).commit.meta_size, 0u);
    EXPECT_GT(ledger.version(3).commit.meta_size, 0u);
  });
}

// [RL-4] What is known is what kept versions and pending proposals have, no more and no less.
TEST(Ledger, an_item_is_known_while_somebody_has_it) {
  SimulatedRegistry place(Founding(1, {1}, 4));
  ASSERT_TRUE(place.open());
  const Hash hash = crypto::hash_object(as_bytes(sample_region(70))).bytes;
  const auto known = [&] {
    return place.ledger([&](Ledger& ledger) { return ledger.find_item(hash) != nullptr; });
  };
  EXPECT_FALSE(known());
  ASSERT_TRUE(place.propose(place.with_regions({70})));
  EXPECT_TRUE(known());
  place.move_clock(place.options.proposals_ttl + Duration::seconds(1));
  ASSERT_TRUE(place.sweep());
  EXPECT_FALSE(known());
  ASSERT_TRUE(place.advance(place.with_regions({70})));
  ASSERT_TRUE(place.advance(place.with_regions({71})));
  EXPECT_TRUE(known());
}

}  // namespace
}  // namespace cairn::registry
