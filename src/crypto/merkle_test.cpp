#include "crypto/merkle.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <string>

namespace cairn::crypto {
namespace {

using Hashes = std::vector<MerkleHash>;

MerkleHash from_hex(std::string_view hex) {
  MerkleHash hash{};
  EXPECT_TRUE(parse_hex_to(hex, hash));
  return hash;
}

MerkleHash leaf_number(std::uint64_t index) { return hash_leaf(as_bytes("leaf " + std::to_string(index))); }

Hashes leaves_up_to(std::uint64_t size) {
  Hashes leaves;
  for (std::uint64_t i = 0; i < size; ++i) leaves.push_back(leaf_number(i));
  return leaves;
}

MerkleTree tree_of(std::span<const MerkleHash> leaves) {
  MerkleTree tree;
  for (const MerkleHash& leaf : leaves) tree.append(leaf);
  return tree;
}

// RFC 6962, section 2.1, word for word: slow and obvious.
std::size_t split(std::size_t size) { return std::bit_ceil(size) / 2; }

MerkleHash naive_root(std::span<const MerkleHash> leaves) {
  if (leaves.empty()) return sha256({});
  if (leaves.size() == 1) return leaves[0];
  const std::size_t k = split(leaves.size());
  std::string node(1, '\x01');
  node += as_text(naive_root(leaves.first(k)));
  node += as_text(naive_root(leaves.subspan(k)));
  return sha256(as_bytes(node));
}

Hashes naive_path(std::size_t index, std::span<const MerkleHash> leaves) {
  if (leaves.size() == 1) return {};
  const std::size_t k = split(leaves.size());
  Hashes path = index < k ? naive_path(index, leaves.first(k)) : naive_path(index - k, leaves.subspan(k));
  path.push_back(naive_root(index < k ? leaves.subspan(k) : leaves.first(k)));
  return path;
}

Hashes naive_subproof(std::size_t from, std::span<const MerkleHash> leaves, bool known) {
  if (from == leaves.size()) return known ? Hashes{} : Hashes{naive_root(leaves)};
  const std::size_t k = split(leaves.size());
  Hashes proof = from <= k ? naive_subproof(from, leaves.first(k), known)
                           : naive_subproof(from - k, leaves.subspan(k), false);
  proof.push_back(naive_root(from <= k ? leaves.subspan(k) : leaves.first(k)));
  return proof;
}

// The entries that the test vectors of RFC 6962's logs use.
MerkleTree known_tree() {
  using namespace std::string_view_literals;
  MerkleTree tree;
  for (std::string_view entry : {""sv, "\x00"sv, "\x10"sv, "\x20\x21"sv, "\x30\x31"sv, "\x40\x41\x42\x43"sv,
                                 "\x50\x51\x52\x53\x54\x55\x56\x57"sv,
                                 "\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f"sv})
    tree.append(hash_leaf(as_bytes(entry)));
  return tree;
}

TEST(Merkle, known_roots) {
  const char* roots[] = {
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
      "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
      "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
      "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
      "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
      "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
      "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
  };
  const MerkleTree tree = known_tree();
  for (std::uint64_t size = 0; size <= 8; ++size)
    EXPECT_EQ(format_hex(tree.root_at(size)), roots[size]) << size;
  EXPECT_EQ(tree.root(), tree.root_at(8));
  EXPECT_EQ(empty_root(), MerkleTree().root());
}

TEST(Merkle, known_proofs) {
  const MerkleTree tree = known_tree();
  const Hashes leaf_5_of_8 = {from_hex("bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"),
                              from_hex("ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"),
                              from_hex("d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7")};
  EXPECT_EQ(tree.inclusion_proof(5, 8), leaf_5_of_8);
  const Hashes leaf_2_of_3 = {from_hex("fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125")};
  EXPECT_EQ(tree.inclusion_proof(2, 3), leaf_2_of_3);
  const Hashes from_6_to_8 = {from_hex("0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"),
                              from_hex("ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"),
                              from_hex("d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7")};
  EXPECT_EQ(tree.consistency_proof(6, 8), from_6_to_8);
  const Hashes from_2_to_5 = {from_hex("5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"),
                              from_hex("bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b")};
  EXPECT_EQ(tree.consistency_proof(2, 5), from_2_to_5);
}

TEST(Merkle, leaf_and_node_are_hashed_apart) {
  const MerkleHash left = leaf_number(0), right = leaf_number(1);
  const std::string pair = std::string(as_text(left)) + std::string(as_text(right));
  EXPECT_EQ(hash_node(left, right), sha256(as_bytes("\x01" + pair)));
  EXPECT_EQ(hash_leaf(as_bytes(pair)), sha256(as_bytes(std::string(1, '\0') + pair)));
}

TEST(Merkle, all_small_trees_agree_with_the_definition) {
  const Hashes leaves = leaves_up_to(130);
  const MerkleTree tree = tree_of(leaves);
  MerkleFrontier frontier;
  for (std::size_t size = 0; size <= leaves.size(); ++size) {
    const auto some = std::span(leaves).first(size);
    const MerkleHash root = naive_root(some);
    ASSERT_EQ(tree.root_at(size), root) << size;
    ASSERT_EQ(frontier.size(), size);
    ASSERT_EQ(frontier.root(), root) << size;
    // One that goes on from there ends where the others do.
    MerkleFrontier resumed = tree.frontier_at(size);
    ASSERT_EQ(resumed.size(), size);
    ASSERT_EQ(resumed.root(), root) << size;
    for (std::size_t i = size; i < leaves.size(); ++i) resumed.append(leaves[i]);
    ASSERT_EQ(resumed.root(), tree.root()) << size;
    for (std::size_t i = 0; i < size; ++i)
      ASSERT_EQ(tree.inclusion_proof(i, size), naive_path(i, some)) << i << " of " << size;
    for (std::size_t from = 1; from < size; ++from)
      ASSERT_EQ(tree.consistency_proof(from, size), naive_subproof(from, some, true))
          << from << " to " << size;
    if (size < leaves.size()) frontier.append(leaves[size]);
  }
}

TEST(Merkle, every_proof_of_small_trees_verifies) {
  const Hashes leaves = leaves_up_to(130);
  const MerkleTree tree = tree_of(leaves);
  Hashes roots;
  for (std::uint64_t size = 0; size <= tree.size(); ++size) roots.push_back(tree.root_at(size));
  for (std::uint64_t size = 0; size <= tree.size(); ++size) {
    for (std::uint64_t i = 0; i < size; ++i) {
      const Hashes proof = tree.inclusion_proof(i, size);
      ASSERT_TRUE(verify_inclusion(leaves[i], i, size, proof, roots[size])) << i << " of " << size;
      ASSERT_FALSE(verify_inclusion(leaves[i], (i + 1) % size, size, proof, roots[size]) && size > 1);
    }
    for (std::uint64_t from = 0; from <= size; ++from)
      ASSERT_TRUE(
          verify_consistency(from, size, tree.consistency_proof(from, size), roots[from], roots[size]))
          << from << " to " << size;
  }
}

RC_GTEST_PROP(Merkle, trees_of_any_size_agree_with_the_definition, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(1, 3000);
  const auto small = *rc::gen::inRange<std::size_t>(1, size + 1);
  const auto index = *rc::gen::inRange<std::size_t>(0, small);
  const Hashes leaves = leaves_up_to(size);
  const MerkleTree tree = tree_of(leaves);
  RC_ASSERT(tree.size() == size && tree.leaf(index) == leaves[index]);
  RC_ASSERT(tree.root() == naive_root(leaves));
  RC_ASSERT(tree.inclusion_proof(index, small) == naive_path(index, std::span(leaves).first(small)));
  RC_ASSERT(tree.consistency_proof(small, size) == naive_subproof(small, leaves, true));
}

TEST(Merkle, nodes_are_roots_of_perfect_subtrees) {
  const Hashes leaves = leaves_up_to(77);
  const MerkleTree tree = tree_of(leaves);
  for (unsigned level = 0; level < 7; ++level) {
    const std::size_t count = leaves.size() >> level;
    const auto nodes = tree.nodes(level, 0, count);
    ASSERT_EQ(nodes.size(), count);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(nodes[i], naive_root(std::span(leaves).subspan(i << level, std::size_t{1} << level)));
  }
  EXPECT_EQ(tree.nodes(2, 3, 2)[1], tree.nodes(2, 0, 19)[4]);
  EXPECT_TRUE(tree.nodes(40, 0, 0).empty());
}

TEST(Merkle, what_the_tree_has_not_is_a_bug_of_the_caller) {
  const MerkleTree tree = tree_of(leaves_up_to(5));
  EXPECT_DEATH(tree.leaf(5), "index < size");
  EXPECT_DEATH(tree.root_at(6), "size <= this->size");
  EXPECT_DEATH(tree.inclusion_proof(4, 4), "index < size");
  EXPECT_DEATH(tree.consistency_proof(4, 3), "from <= to");
  EXPECT_DEATH(tree.nodes(1, 1, 2), "hashes.size");
  EXPECT_DEATH(tree.nodes(3, 0, 1), "levels_.size");
}

// Calls `attempt` with every proof that differs from this one by one bit, one hash less or one hash more.
template <class Attempt>
void for_each_damage(const Hashes& proof, Attempt attempt) {
  for (std::size_t bit = 0; bit < proof.size() * 256; ++bit) {
    Hashes other = proof;
    other[bit / 256][bit % 256 / 8] ^= static_cast<std::byte>(1u << bit % 8);
    attempt(other);
  }
  for (std::size_t i = 0; i <= proof.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    Hashes longer = proof;
    longer.insert(longer.begin() + at, i < proof.size() ? proof[i] : leaf_number(0));
    attempt(longer);
    if (i == proof.size()) break;
    Hashes shorter = proof;
    shorter.erase(shorter.begin() + at);
    attempt(shorter);
  }
}

TEST(Merkle, every_damage_to_an_inclusion_proof_is_refused) {
  const MerkleTree tree = tree_of(leaves_up_to(21));
  for (std::uint64_t size : {1u, 2u, 7u, 8u, 11u, 21u}) {
    const MerkleHash root = tree.root_at(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const Hashes proof = tree.inclusion_proof(i, size);
      ASSERT_TRUE(verify_inclusion(tree.leaf(i), i, size, proof, root));
      for_each_damage(proof, [&](const Hashes& other) {
        EXPECT_FALSE(verify_inclusion(tree.leaf(i), i, size, other, root)) << i << " of " << size;
      });
      for (std::uint64_t j = 0; j < size + 3; ++j)
        if (j != i) EXPECT_FALSE(verify_inclusion(tree.leaf(i), j, size, proof, root)) << i << " as " << j;
      if (size > 1) EXPECT_FALSE(verify_inclusion(tree.leaf((i + 1) % size), i, size, proof, root));
      EXPECT_FALSE(verify_inclusion(tree.leaf(i), i, size, proof, tree.root_at(size - 1)));
    }
  }
}

TEST(Merkle, every_damage_to_a_consistency_proof_is_refused) {
  const MerkleTree tree = tree_of(leaves_up_to(21));
  for (std::uint64_t to : {2u, 7u, 8u, 11u, 21u}) {
    for (std::uint64_t from = 1; from <= to; ++from) {
      const Hashes proof = tree.consistency_proof(from, to);
      const MerkleHash older = tree.root_at(from), newer = tree.root_at(to);
      ASSERT_TRUE(verify_consistency(from, to, proof, older, newer));
      for_each_damage(proof, [&](const Hashes& other) {
        EXPECT_FALSE(verify_consistency(from, to, other, older, newer)) << from << " to " << to;
      });
      EXPECT_FALSE(verify_consistency(from, to, proof, tree.root_at(from - 1), newer));
      EXPECT_FALSE(verify_consistency(from, to, proof, older, tree.root_at(to - 1)));
      if (from != to) EXPECT_FALSE(verify_consistency(to, from, proof, newer, older));
    }
  }
}

TEST(Merkle, a_rewritten_leaf_has_no_consistency) {
  Hashes leaves = leaves_up_to(20);
  const MerkleTree honest = tree_of(leaves);
  leaves[3] = leaf_number(1000);
  const MerkleTree rewritten = tree_of(leaves);
  for (std::uint64_t from = 4; from < 20; ++from) {
    EXPECT_FALSE(verify_consistency(from, 20, rewritten.consistency_proof(from, 20), honest.root_at(from),
                                    rewritten.root()));
    EXPECT_FALSE(verify_consistency(from, 20, honest.consistency_proof(from, 20), honest.root_at(from),
                                    rewritten.root()));
  }
}

TEST(Merkle, empty_and_equal_trees_need_no_proof_and_take_none) {
  const MerkleHash a = leaf_number(0), b = leaf_number(1);
  const Hashes none, one = {a};
  EXPECT_TRUE(verify_consistency(0, 0, none, empty_root(), empty_root()));
  EXPECT_TRUE(verify_consistency(0, 5, none, empty_root(), a));
  EXPECT_TRUE(verify_consistency(5, 5, none, a, a));
  EXPECT_FALSE(verify_consistency(0, 0, none, a, a));
  EXPECT_FALSE(verify_consistency(0, 5, none, b, a));
  EXPECT_FALSE(verify_consistency(0, 5, one, empty_root(), a));
  EXPECT_FALSE(verify_consistency(5, 5, none, a, b));
  EXPECT_FALSE(verify_consistency(5, 5, one, a, a));
  EXPECT_FALSE(verify_consistency(4, 5, none, a, a));
  EXPECT_FALSE(verify_consistency(3, 5, none, a, a));
  EXPECT_FALSE(verify_consistency(5, 0, none, a, empty_root()));
  EXPECT_TRUE(verify_inclusion(a, 0, 1, none, a));
  EXPECT_FALSE(verify_inclusion(a, 0, 0, none, a));
  EXPECT_FALSE(verify_inclusion(a, 0, 1, one, a));
}

TEST(Merkle, a_proof_that_climbs_above_the_claimed_size_is_refused) {
  // The root of a larger tree, as if it were that of a smaller one with the same way up at its beginning.
  const MerkleTree tree = tree_of(leaves_up_to(8));
  EXPECT_FALSE(verify_inclusion(tree.leaf(1), 0, 1, tree.inclusion_proof(1, 2), tree.root_at(2)));
  EXPECT_FALSE(verify_inclusion(tree.leaf(7), 3, 4, tree.inclusion_proof(7, 8), tree.root_at(8)));
  Hashes proof = tree.consistency_proof(3, 4);
  const MerkleHash above = leaf_number(0);
  proof.push_back(above);
  EXPECT_FALSE(
      verify_consistency(3, 4, proof, hash_node(above, tree.root_at(3)), hash_node(above, tree.root_at(4))));
}

TEST(Merkle, the_largest_sizes_are_only_numbers) {
  const std::uint64_t most = ~std::uint64_t{0};
  const Hashes many(100, leaf_number(0));
  for (std::size_t count = 0; count <= many.size(); ++count) {
    const auto proof = std::span(many).first(count);
    EXPECT_FALSE(verify_inclusion(many[0], most - 1, most, proof, many[0]));
    EXPECT_FALSE(verify_inclusion(many[0], most, most, proof, many[0]));
    EXPECT_FALSE(verify_consistency(most - 1, most, proof, many[0], many[0]));
    EXPECT_FALSE(verify_consistency(std::uint64_t{1} << 63, most, proof, many[0], many[0]));
  }
}

}  // namespace
}  // namespace cairn::crypto
