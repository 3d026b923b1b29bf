// The Merkle tree of RFC 6962 (RFC 9162, section 2) over SHA-256: an append-only log whose root at any size
// proves that a leaf is in it, and that a later root only added to an earlier one.
//
// A leaf's hash and a node's hash begin with different bytes, so that neither can be taken for the other. A
// tree whose size is no power of two splits at the largest one below it: everything left of the split is
// perfect and never changes again.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "crypto/sha256.h"

namespace cairn::crypto {

using MerkleHash = Sha256Hash;

MerkleHash hash_leaf(ByteView entry) noexcept;
MerkleHash hash_node(const MerkleHash& left, const MerkleHash& right) noexcept;
// The root of a tree without leaves.
MerkleHash empty_root() noexcept;

class MerkleFrontier;

// Keeps all of a tree that never changes: its leaves and the nodes over perfect subtrees, 64 bytes a leaf.
// Nodes over the incomplete right edge, at most 63, are hashed when asked for.
//
// Invariants:
// 1. Level l holds size() >> l hashes; number i is the root of leaves i << l up to (i + 1) << l.
// 2. A hash once there keeps its value: roots and proofs of earlier sizes stay what they were.
class MerkleTree {
 public:
  void append(const MerkleHash& leaf);

  std::uint64_t size() const noexcept { return levels_.empty() ? 0 : levels_.front().size(); }
  // Precondition: index < size().
  const MerkleHash& leaf(std::uint64_t index) const noexcept;
  MerkleHash root() const noexcept { return root_at(size()); }
  // Precondition: size <= size().
  MerkleHash root_at(std::uint64_t size) const noexcept;
  // The right edge as it was at that size, to append to. Hashes nothing. Precondition: size <= size().
  MerkleFrontier frontier_at(std::uint64_t size) const noexcept;

  // The siblings on the path from the leaf to the root, the lowest first. Precondition: index < size <=
  // size().
  std::vector<MerkleHash> inclusion_proof(std::uint64_t index, std::uint64_t size) const;
  // The nodes from which both roots follow, the lowest first; empty when `from` is 0 or equals `to`, where no
  // proof is needed. Precondition: from <= to <= size().
  std::vector<MerkleHash> consistency_proof(std::uint64_t from, std::uint64_t to) const;

  // Consecutive hashes of one level, valid until the next append. Precondition: the level has them all.
  std::span<const MerkleHash> nodes(unsigned level, std::uint64_t first, std::uint64_t count) const noexcept;

 private:
  // The root of leaves begin up to begin + count, where begin is a multiple of a power of two >= count > 0.
  MerkleHash subtree(std::uint64_t begin, std::uint64_t count) const noexcept;
  // Appends the siblings on the path from a node up to the root at `size`.
  void climb(unsigned level, std::uint64_t index, std::uint64_t size, std::vector<MerkleHash>& proof) const;

  std::vector<std::vector<MerkleHash>> levels_;
};

// The right edge alone: the root of a stream of leaves without keeping them.
//
// Invariant: peaks_[l] is the root of a perfect subtree of 1 << l leaves exactly where bit l of size() is
// set; from the highest to the lowest they cover all leaves in order.
class MerkleFrontier {
 public:
  void append(const MerkleHash& leaf) noexcept;
  std::uint64_t size() const noexcept { return size_; }
  MerkleHash root() const noexcept;

 private:
  friend class MerkleTree;
  std::uint64_t size_ = 0;
  std::array<MerkleHash, 64> peaks_;
};

// Whether the proof shows that the leaf with this hash is number `index` of the tree with this size and root.
// Every argument may come from a stranger; only the one correct proof passes. It does not prove that size and
// root belong together: a signed checkpoint does.
bool verify_inclusion(const MerkleHash& leaf_hash, std::uint64_t index, std::uint64_t size,
                      std::span<const MerkleHash> proof, const MerkleHash& root) noexcept;

// Whether the proof shows that the tree with `to` leaves begins with the `from` leaves of the other one.
// Equal sizes need equal roots, an empty tree has the empty root and begins every other: then the proof is
// empty.
bool verify_consistency(std::uint64_t from, std::uint64_t to, std::span<const MerkleHash> proof,
                        const MerkleHash& from_root, const MerkleHash& to_root) noexcept;

}  // namespace cairn::crypto
