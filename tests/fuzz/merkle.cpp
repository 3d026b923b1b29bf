// Proofs of a stranger against a small tree: none is accepted but the prover's own, whether it is made of
// arbitrary bytes or of the true one, cut, extended or changed; and true ones always are.
#include "crypto/merkle.h"

#include <algorithm>
#include <string>

#include "fuzz/splits.h"

namespace {

using namespace cairn;
using namespace cairn::crypto;
using fuzz::require;

constexpr std::uint64_t leaves = 37;

const MerkleTree& tree() {
  static const MerkleTree made = [] {
    MerkleTree some;
    for (std::uint64_t i = 0; i < leaves; ++i) some.append(hash_leaf(as_bytes(std::to_string(i))));
    return some;
  }();
  return made;
}

using Proof = std::vector<MerkleHash>;

// `rest` as hashes, or as changes to the true proof: length, then pairs of place and mask. A hash of
// arbitrary bytes is never right, so a place may also be filled with a node of the tree.
Proof make_proof(const Proof& truth, bool raw, ByteView rest) {
  Proof proof;
  if (raw) {
    for (; rest.size() >= sizeof(MerkleHash); rest = rest.subspan(sizeof(MerkleHash)))
      std::ranges::copy(rest.first(sizeof(MerkleHash)), proof.emplace_back().begin());
    return proof;
  }
  proof = truth;
  if (rest.empty()) return proof;
  const auto size = std::to_integer<std::size_t>(rest[0]);
  if (size < 80) proof.resize(size, tree().leaf(0));
  for (rest = rest.subspan(1); rest.size() >= 2 && !proof.empty(); rest = rest.subspan(2)) {
    const auto place = std::to_integer<std::size_t>(rest[0]), value = std::to_integer<std::size_t>(rest[1]);
    MerkleHash& hash = proof[place % proof.size()];
    const auto level = static_cast<unsigned>(place / 128 * (value % 6));
    if (value < 128)
      hash = tree().nodes(level, value % (leaves >> level), 1)[0];
    else
      hash[place % hash.size()] ^= rest[1];
  }
  return proof;
}

}  // namespace

// Byte 0: bit 0 consistency, bit 1 raw, bit 2 huge sizes. Bytes 1 and 2: index or smaller size, and size.
// Byte 3: which root and leaf are claimed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const ByteView rest = std::as_bytes(std::span(data, size)).subspan(4);
  const bool raw = (data[0] & 2) != 0;
  const std::uint64_t to = data[2] % (leaves + 1);
  // Sizes that no tree here has: anything may be answered but the truth's root must not come out of nothing.
  const std::uint64_t shift = (data[0] & 4) != 0 ? data[3] % 64 : 0;
  if ((data[0] & 1) != 0) {
    const std::uint64_t from = data[1] % (to + 1);
    const Proof truth = tree().consistency_proof(from, to);
    const Proof proof = make_proof(truth, raw, rest);
    const MerkleHash older = tree().root_at(from), newer = tree().root_at(to);
    require(verify_consistency(from, to, proof, older, newer) == (proof == truth), "consistency");
    require(verify_consistency(from, to, truth, older, newer), "true consistency");
    if (from != 0 && from != to) {
      const MerkleHash other = tree().leaf(data[3] % leaves);
      require(other == older || !verify_consistency(from, to, proof, other, newer), "another older root");
      require(other == newer || !verify_consistency(from, to, proof, older, other), "another newer root");
    }
    if (shift != 0) (void)verify_consistency(from << shift, ~(to << shift), proof, older, newer);
    require(from == to || !verify_consistency(to, from, proof, newer, older), "backwards");
  } else if (to != 0) {
    const std::uint64_t index = data[1] % to;
    const Proof truth = tree().inclusion_proof(index, to);
    const Proof proof = make_proof(truth, raw, rest);
    const MerkleHash root = tree().root_at(to);
    require(verify_inclusion(tree().leaf(index), index, to, proof, root) == (proof == truth), "inclusion");
    require(verify_inclusion(tree().leaf(index), index, to, truth, root), "true inclusion");
    const std::uint64_t other = data[3] % leaves;
    require(other == index || !verify_inclusion(tree().leaf(other), index, to, proof, root), "another leaf");
    require(!verify_inclusion(tree().leaf(index), index + to, to, proof, root), "no such leaf");
    if (shift != 0) (void)verify_inclusion(tree().leaf(index), index << shift, ~(to << shift), proof, root);
  }
  return 0;
}
