#include "format/chain_verifier.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "format/sample_registry.h"

namespace cairn::format {
namespace {

std::string flip(const std::string& bytes, std::size_t bit) {
  std::string flipped = bytes;
  flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
  return flipped;
}

// Four versions: the signers change at 2, one is revoked at 3.
SampleRegistry sample_chain() {
  SampleRegistry registry(2, {1, 2, 3});
  registry.append({sample_signer_set(2, {1, 2, 3}), sample_item(R"({"type":"region","id":"eu"})")}, {1, 3});
  registry.append({sample_signer_set(1, {4, 5})}, {1, 2});
  registry.append({sample_signer_set(1, {4, 5}), sample_revocation(4)}, {4});
  registry.append({sample_signer_set(1, {4, 5}), sample_revocation(4)}, {5});
  return registry;
}

ChainVerifier verifier_at(const SampleRegistry& registry, std::size_t version) {
  ChainVerifier verifier(registry.roots());
  for (std::size_t i = 0; i < version; ++i) CHECK(take(verifier, registry.versions[i]));
  return verifier;
}

// The code with which `version` is refused as the next; ok when it is taken.
ErrorCode offered(ChainVerifier verifier, const DescriptorSet& set, const Commit& commit) {
  const std::uint64_t size = verifier.size();
  const crypto::MerkleHash root = verifier.root();
  const auto taken = verifier.take(as_bytes(encode(commit)), as_bytes(encode(set)));
  if (taken) return ErrorCode::ok;
  EXPECT_EQ(verifier.bad_version(), size);
  EXPECT_TRUE(verifier.why().starts_with("version " + std::to_string(size) + ": ")) << verifier.why();
  EXPECT_EQ(verifier.size(), size);
  EXPECT_EQ(verifier.root(), root);
  return taken.error().code;
}

TEST(ChainVerifier, a_whole_chain_verifies_and_has_the_trees_root) {
  const SampleRegistry registry = sample_chain();
  ChainVerifier verifier(registry.roots());
  crypto::MerkleTree tree;
  EXPECT_EQ(verifier.root(), tree.root());
  for (const Genesis& version : registry.versions) {
    ASSERT_TRUE(take(verifier, version)) << verifier.why();
    tree.append(crypto::hash_leaf(as_bytes(version.commit)));
    EXPECT_EQ(verifier.size(), tree.size());
    EXPECT_EQ(verifier.root(), tree.root());
  }
  EXPECT_TRUE(verifier.approvals_checked());
  EXPECT_EQ(verifier.head(), registry.head());
  EXPECT_EQ(verifier.governance()->in_force(), 1u);
}

TEST(ChainVerifier, only_the_pinned_genesis_is_taken) {
  const SampleRegistry registry(1, {1}), other(1, {2});
  ChainVerifier verifier(registry.roots());
  ASSERT_FALSE(take(verifier, other.versions[0]));
  EXPECT_EQ(verifier.why(), "version 0: the commit is not the genesis that the trust roots name");
  TrustRoots roots = registry.roots();
  roots.genesis_payload_b3 = {};
  ChainVerifier confused(roots);
  EXPECT_FALSE(take(confused, registry.versions[0]));
  // A refusal moves nothing: the right one may still come.
  EXPECT_TRUE(take(verifier, registry.versions[0]));
}

TEST(ChainVerifier, versions_come_one_after_the_other) {
  const SampleRegistry registry = sample_chain();
  for (std::size_t next = 0; next < registry.versions.size(); ++next)
    for (std::size_t offer = 0; offer < registry.versions.size(); ++offer) {
      ChainVerifier verifier = verifier_at(registry, next);
      const auto taken = take(verifier, registry.versions[offer]);
      EXPECT_EQ(taken.has_value(), next == offer);
      if (!taken) EXPECT_EQ(taken.error().code, ErrorCode::chain_mismatch);
    }
}

TEST(ChainVerifier, what_does_not_follow_is_refused) {
  SampleRegistry registry = sample_chain();
  registry.versions.resize(2);
  const ChainVerifier verifier = verifier_at(registry, 2);
  const std::vector<std::string> items{sample_signer_set(2, {1, 2, 3})};
  const DescriptorSet good = registry.next_set(items);
  EXPECT_EQ(offered(verifier, good, SampleRegistry::commit_of(good, {1, 2})), ErrorCode::ok);

  const auto changed = [&](auto change_set, auto change_commit) {
    DescriptorSet set = good;
    change_set(set);
    Commit commit = SampleRegistry::commit_of(set, {1, 2});
    change_commit(commit);
    return offered(verifier, set, commit);
  };
  const auto same = [](auto&) {};
  // A fork: properly approved, but after another commit.
  EXPECT_EQ(changed([&](DescriptorSet& set) { set.prev = registry.roots().genesis_commit_b3; }, same),
            ErrorCode::chain_mismatch);
  EXPECT_EQ(changed([](DescriptorSet& set) { set.version = 3; }, same), ErrorCode::chain_mismatch);
  // The commit is right and the payload another's.
  EXPECT_EQ(changed([](DescriptorSet& set) { set.version = 3; }, [](Commit& commit) { commit.version = 2; }),
            ErrorCode::chain_mismatch);
  EXPECT_EQ(changed([](DescriptorSet& set) { set.prev = Address{}; },
                    [&](Commit& commit) { commit.prev = good.prev; }),
            ErrorCode::chain_mismatch);
  EXPECT_EQ(changed(same, [](Commit& commit) { commit.payload_b3 = {}; }), ErrorCode::integrity);
  // Time does not run back; it may stand still.
  const WallTime before = decode_commit(as_bytes(registry.versions[1].commit))->committed_at;
  EXPECT_EQ(changed(same, [&](Commit& commit) { commit.committed_at = before; }), ErrorCode::ok);
  EXPECT_EQ(changed(same, [&](Commit& commit) { commit.committed_at.ms = before.ms - 1; }),
            ErrorCode::chain_mismatch);
  // Expired when it was committed.
  EXPECT_EQ(changed([](DescriptorSet& set) { set.expiry = set.created_at; }, same), ErrorCode::ok);
  EXPECT_EQ(changed([](DescriptorSet& set) { set.expiry = WallTime{set.created_at.ms - 1}; }, same),
            ErrorCode::chain_mismatch);
  // Only the version before can be superseded.
  const auto supersede = [](std::uint64_t version) {
    return [version](DescriptorSet& set) {
      set.supersede_of = version;
      set.reason = "wrong";
    };
  };
  EXPECT_EQ(changed(supersede(1), same), ErrorCode::ok);
  EXPECT_EQ(changed(supersede(0), same), ErrorCode::malformed);
  EXPECT_EQ(changed(supersede(2), same), ErrorCode::malformed);
}

TEST(ChainVerifier, approvals_count_under_the_version_before) {
  SampleRegistry registry = sample_chain();
  const auto code = [&](std::size_t version, const std::vector<unsigned>& approvers) {
    SampleRegistry chain = registry;
    chain.versions.resize(version);
    const DescriptorSet set = chain.next_set({sample_signer_set(1, {4, 5})});
    return offered(verifier_at(chain, version), set, SampleRegistry::commit_of(set, approvers));
  };
  EXPECT_EQ(code(2, {1, 2}), ErrorCode::ok);
  EXPECT_EQ(code(2, {4}), ErrorCode::invalid_sig);  // it becomes a signer by this very version
  EXPECT_EQ(code(2, {1}), ErrorCode::quorum_failed);
  EXPECT_EQ(code(3, {4}), ErrorCode::ok);
  EXPECT_EQ(code(3, {1, 2}), ErrorCode::invalid_sig);  // no longer signers
  EXPECT_EQ(code(4, {4}), ErrorCode::revoked_key);
  EXPECT_EQ(code(4, {4, 5}), ErrorCode::revoked_key);
  EXPECT_EQ(code(4, {5}), ErrorCode::ok);
}

TEST(ChainVerifier, without_payloads_the_links_are_still_checked) {
  const SampleRegistry registry = sample_chain();
  ChainVerifier verifier(registry.roots());
  for (const Genesis& version : registry.versions) {
    const auto wrong =
        verifier.take(as_bytes(flip(version.commit, 8 * (version.commit.find("prev") + 6))), {});
    EXPECT_FALSE(wrong);
    ASSERT_TRUE(verifier.take(as_bytes(version.commit), std::nullopt)) << verifier.why();
    EXPECT_FALSE(verifier.approvals_checked());
    EXPECT_FALSE(verifier.governance());
  }
  EXPECT_EQ(verifier.root(), verifier_at(registry, registry.versions.size()).root());
}

TEST(ChainVerifier, a_gap_in_the_payloads_is_never_forgotten) {
  const SampleRegistry registry = sample_chain();
  ChainVerifier verifier(registry.roots());
  for (std::size_t i = 0; i < registry.versions.size(); ++i) {
    if (i == 2) {
      // Its signers are still known, so its approvals are looked at all the same.
      Commit commit = decode_commit(as_bytes(registry.versions[2].commit)).value();
      commit.approvals.pop_back();
      EXPECT_EQ(verifier.take(as_bytes(encode(commit)), std::nullopt).error().code, ErrorCode::quorum_failed);
      ASSERT_TRUE(verifier.take(as_bytes(registry.versions[2].commit), std::nullopt));
    } else {
      ASSERT_TRUE(take(verifier, registry.versions[i])) << verifier.why();
    }
    EXPECT_EQ(verifier.approvals_checked(), i < 2);
  }
}

TEST(ChainVerifier, a_pruned_chain_goes_on_from_where_it_was_cut) {
  const SampleRegistry registry = sample_chain();
  const ChainVerifier whole = verifier_at(registry, registry.versions.size());
  const ChainVerifier before = verifier_at(registry, 3);
  const ChainVerifier::Start start{
      .prev = before.head(), .governance = before.governance(), .leaves = before.leaves()};
  ChainVerifier verifier(start);
  EXPECT_EQ(verifier.size(), 3u);
  ASSERT_TRUE(take(verifier, registry.versions[3])) << verifier.why();
  ASSERT_TRUE(take(verifier, registry.versions[4])) << verifier.why();
  EXPECT_TRUE(verifier.approvals_checked());
  EXPECT_EQ(verifier.root(), whole.root());

  ChainVerifier::Start other = start;
  other.prev = registry.roots().genesis_commit_b3;
  ChainVerifier elsewhere(other);
  EXPECT_EQ(take(elsewhere, registry.versions[3]).error().code, ErrorCode::chain_mismatch);
  ChainVerifier::Start ungoverned = start;
  ungoverned.governance.reset();
  ChainVerifier unsure(ungoverned);
  ASSERT_TRUE(take(unsure, registry.versions[3]));
  EXPECT_FALSE(unsure.approvals_checked());
  ChainVerifier::Start timed = start;
  timed.committed_at = WallTime{sample_time.ms + 1000};
  ChainVerifier late(timed);
  EXPECT_EQ(take(late, registry.versions[3]).error().code, ErrorCode::chain_mismatch);
}

TEST(ChainVerifier, a_flipped_bit_of_a_payload_is_never_accepted) {
  const SampleRegistry registry = sample_chain();
  for (std::size_t version = 0; version < registry.versions.size(); ++version) {
    ChainVerifier verifier = verifier_at(registry, version);
    const Genesis& good = registry.versions[version];
    for (std::size_t bit = 0; bit < good.payload.size() * 8; ++bit)
      ASSERT_FALSE(take(verifier, {flip(good.payload, bit), good.commit})) << version << " " << bit;
    EXPECT_TRUE(take(verifier, good));
  }
}

// committed_at and signed_at are the only things that no signature covers and no link before them fixes: a
// change there is seen by the commit after it, and in every case by the root.
TEST(ChainVerifier, a_flipped_bit_of_a_commit_is_never_accepted) {
  const SampleRegistry registry = sample_chain();
  const ChainVerifier whole = verifier_at(registry, registry.versions.size());
  for (std::size_t version = 0; version < registry.versions.size(); ++version) {
    const Genesis& good = registry.versions[version];
    const Commit commit = decode_commit(as_bytes(good.commit)).value();
    const ChainVerifier before = verifier_at(registry, version);
    ChainVerifier after = before;
    ASSERT_TRUE(take(after, good));
    for (std::size_t bit = 0; bit < good.commit.size() * 8; ++bit) {
      const std::string flipped = flip(good.commit, bit);
      ChainVerifier verifier = before;
      if (!take(verifier, {good.payload, flipped})) continue;
      ASSERT_NE(version, 0u) << "genesis is pinned, " << bit;
      Commit other = decode_commit(as_bytes(flipped)).value();
      other.committed_at = commit.committed_at;
      for (std::size_t i = 0; i < other.approvals.size(); ++i)
        other.approvals[i].signed_at = commit.approvals[i].signed_at;
      EXPECT_EQ(other, commit) << "more than a time was changed, " << bit;
      EXPECT_NE(verifier.root(), after.root());
      if (version + 1 < registry.versions.size())
        EXPECT_FALSE(take(verifier, registry.versions[version + 1])) << version << " " << bit;
    }
  }
}

// Random chains whose signers change: whatever is taken had its quorum, whatever had it is taken.
RC_GTEST_PROP(ChainVerifier, no_version_without_quorum, ()) {
  // Each of eight with some chance; at least one.
  const auto draw_signers = [] {
    std::vector<unsigned> numbers{*rc::gen::inRange(0u, 8u)};
    for (unsigned number = 0; number < 8; ++number)
      if (number != numbers[0] && *rc::gen::weightedElement<bool>({{1, true}, {2, false}}))
        numbers.push_back(number);
    return numbers;
  };
  std::vector<unsigned> signers = draw_signers();
  auto m = *rc::gen::inRange<unsigned>(1, static_cast<unsigned>(signers.size()) + 1);
  SampleRegistry registry(m, signers);
  ChainVerifier verifier(registry.roots());
  RC_ASSERT(take(verifier, registry.versions[0]).has_value());
  std::vector<unsigned> in_force = signers;
  for (int i = 0; i < 4; ++i) {
    const std::vector<unsigned> next = draw_signers();
    std::vector<unsigned> next_in_force;
    std::vector<std::string> items;
    for (const unsigned number : next) {
      if (next_in_force.empty() || *rc::gen::weightedElement<bool>({{3, true}, {1, false}})) {
        next_in_force.push_back(number);
      } else {
        items.push_back(sample_revocation(number));
      }
    }
    const auto next_m = *rc::gen::inRange<unsigned>(1, static_cast<unsigned>(next_in_force.size()) + 1);
    items.push_back(sample_signer_set(next_m, next));
    std::vector<unsigned> approvers;
    bool foreign = false;
    for (unsigned number = 0; number < 8; ++number) {
      const bool may = std::ranges::find(in_force, number) != in_force.end();
      if (!*rc::gen::weightedElement<bool>({{may ? 12u : 1u, true}, {may ? 6u : 60u, false}})) continue;
      approvers.push_back(number);
      foreign = foreign || !may;
    }
    const bool right = !foreign && approvers.size() >= m;
    RC_CLASSIFY(right);
    registry.append(items, approvers);
    RC_ASSERT(take(verifier, registry.versions.back()).has_value() == right);
    RC_ASSERT(verifier.approvals_checked());
    if (!right) {
      registry.versions.pop_back();
      continue;
    }
    m = next_m;
    in_force = next_in_force;
  }
}

}  // namespace
}  // namespace cairn::format
