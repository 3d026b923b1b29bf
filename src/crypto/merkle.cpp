#include "crypto/merkle.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace cairn::crypto {

MerkleHash hash_leaf(ByteView entry) noexcept {
  constexpr std::byte prefix[] = {std::byte{0}};
  Sha256 hasher;
  hasher.update(prefix);
  hasher.update(entry);
  return hasher.finish();
}

MerkleHash hash_node(const MerkleHash& left, const MerkleHash& right) noexcept {
  std::array<std::byte, 1 + 2 * sizeof(MerkleHash)> node;
  node[0] = std::byte{1};
  std::ranges::copy(left, node.begin() + 1);
  std::ranges::copy(right, node.begin() + 1 + sizeof(MerkleHash));
  return sha256(node);
}

MerkleHash empty_root() noexcept { return sha256({}); }

void MerkleTree::append(const MerkleHash& leaf) {
  std::uint64_t index = size();
  MerkleHash hash = leaf;
  for (unsigned level = 0;; ++level, index >>= 1) {
    if (level == levels_.size()) levels_.emplace_back();
    std::vector<MerkleHash>& nodes = levels_[level];
    nodes.push_back(hash);
    if (index % 2 == 0) return;
    hash = hash_node(nodes[index - 1], nodes[index]);
  }
}

const MerkleHash& MerkleTree::leaf(std::uint64_t index) const noexcept {
  CHECK(index < size());
  return levels_[0][index];
}

MerkleHash MerkleTree::root_at(std::uint64_t size) const noexcept {
  CHECK(size <= this->size());
  return size == 0 ? empty_root() : subtree(0, size);
}

MerkleFrontier MerkleTree::frontier_at(std::uint64_t size) const noexcept {
  CHECK(size <= this->size());
  MerkleFrontier edge;
  edge.size_ = size;
  for (unsigned level = 0; level < levels_.size(); ++level)
    if ((size >> level & 1) != 0) edge.peaks_[level] = levels_[level][(size >> level) - 1];
  return edge;
}

MerkleHash MerkleTree::subtree(std::uint64_t begin, std::uint64_t count) const noexcept {
  // The perfect subtrees that cover the leaves have the sizes of the bits of `count`; the smallest is the
  // last.
  std::uint64_t end = begin + count;
  auto level = static_cast<unsigned>(std::countr_zero(count));
  MerkleHash hash = levels_[level][(end >> level) - 1];
  while (true) {
    end -= std::uint64_t{1} << level;
    if (end == begin) return hash;
    level = static_cast<unsigned>(std::countr_zero(end - begin));
    hash = hash_node(levels_[level][(end >> level) - 1], hash);
  }
}

void MerkleTree::climb(unsigned level, std::uint64_t index, std::uint64_t size,
                       std::vector<MerkleHash>& proof) const {
  for (; (size - 1) >> level != 0; ++level, index >>= 1) {
    const std::uint64_t begin = (index ^ 1) << level;
    // The last node of a level may be alone: it is the same node one level up.
    if (begin < size) proof.push_back(subtree(begin, std::min(size - begin, std::uint64_t{1} << level)));
  }
}

std::vector<MerkleHash> MerkleTree::inclusion_proof(std::uint64_t index, std::uint64_t size) const {
  CHECK(index < size && size <= this->size());
  std::vector<MerkleHash> proof;
  climb(0, index, size, proof);
  return proof;
}

std::vector<MerkleHash> MerkleTree::consistency_proof(std::uint64_t from, std::uint64_t to) const {
  CHECK(from <= to && to <= size());
  std::vector<MerkleHash> proof;
  if (from == 0 || from == to) return proof;
  // The path starts at the last perfect subtree of the older tree. When that is the whole older tree, the
  // verifier already has its hash.
  const auto level = static_cast<unsigned>(std::countr_zero(from));
  const std::uint64_t index = (from >> level) - 1;
  if (index != 0) proof.push_back(levels_[level][index]);
  climb(level, index, to, proof);
  return proof;
}

std::span<const MerkleHash> MerkleTree::nodes(unsigned level, std::uint64_t first,
                                              std::uint64_t count) const noexcept {
  if (count == 0) return {};
  CHECK(level < levels_.size());
  const std::vector<MerkleHash>& hashes = levels_[level];
  CHECK(first <= hashes.size() && count <= hashes.size() - first);
  return std::span(hashes).subspan(first, count);
}

void MerkleFrontier::append(const MerkleHash& leaf) noexcept {
  CHECK(size_ != std::numeric_limits<std::uint64_t>::max());
  MerkleHash hash = leaf;
  std::size_t level = 0;
  for (; (size_ >> level & 1) != 0; ++level) hash = hash_node(peaks_[level], hash);
  peaks_[level] = hash;
  ++size_;
}

MerkleHash MerkleFrontier::root() const noexcept {
  if (size_ == 0) return empty_root();
  auto level = static_cast<std::size_t>(std::countr_zero(size_));
  MerkleHash hash = peaks_[level];
  for (++level; level < peaks_.size(); ++level)
    if ((size_ >> level & 1) != 0) hash = hash_node(peaks_[level], hash);
  return hash;
}

// Both verifiers follow RFC 9162 (2.1.3.2 and 2.1.4.2) with its names: fn is the number of the node on the
// way up, sn that of the last node of the same level. They share nothing with the prover, so that a mistake
// there shows here.
namespace {

// To the level where the node is a right one: below it, the last node had no neighbour.
void skip_lone_levels(std::uint64_t& fn, std::uint64_t& sn) noexcept {
  while (fn % 2 == 0 && fn != 0) {
    fn >>= 1;
    sn >>= 1;
  }
}

}  // namespace

bool verify_inclusion(const MerkleHash& leaf_hash, std::uint64_t index, std::uint64_t size,
                      std::span<const MerkleHash> proof, const MerkleHash& root) noexcept {
  if (index >= size) return false;
  std::uint64_t fn = index, sn = size - 1;
  MerkleHash r = leaf_hash;
  for (const MerkleHash& p : proof) {
    if (sn == 0) return false;
    if (fn % 2 == 1 || fn == sn) {
      r = hash_node(p, r);
      skip_lone_levels(fn, sn);
    } else {
      r = hash_node(r, p);
    }
    fn >>= 1;
    sn >>= 1;
  }
  return sn == 0 && r == root;
}

bool verify_consistency(std::uint64_t from, std::uint64_t to, std::span<const MerkleHash> proof,
                        const MerkleHash& from_root, const MerkleHash& to_root) noexcept {
  if (from > to) return false;
  if (from == 0 && from_root != empty_root()) return false;
  if (from == to) return proof.empty() && from_root == to_root;
  if (from == 0) return proof.empty();
  if (proof.empty()) return false;

  std::uint64_t fn = from - 1, sn = to - 1;
  while (fn % 2 == 1) {
    fn >>= 1;
    sn >>= 1;
  }
  // A perfect older tree is itself the first node, which the proof leaves out.
  MerkleHash fr = from_root;
  if (!std::has_single_bit(from)) {
    fr = proof.front();
    proof = proof.subspan(1);
  }
  MerkleHash sr = fr;
  for (const MerkleHash& c : proof) {
    if (sn == 0) return false;
    if (fn % 2 == 1 || fn == sn) {
      fr = hash_node(c, fr);
      sr = hash_node(c, sr);
      skip_lone_levels(fn, sn);
    } else {
      sr = hash_node(sr, c);
    }
    fn >>= 1;
    sn >>= 1;
  }
  return sn == 0 && fr == from_root && sr == to_root;
}

}  // namespace cairn::crypto
