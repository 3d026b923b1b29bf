// ChainVerifier: trusts nothing but the trust roots. It takes a registry's commits in order, one at a time,
// and refuses the first that does not follow from those before it.
//
// Invariants:
// 1. Versions taken are consecutive, each commit names the one before it, committed_at never decreases.
// 2. Where payloads were given, each is the one its commit names, not expired when committed, and approved
//    under the governance of the version before (genesis: its own).
// 3. A refused commit changes nothing but bad_version() and why(): another one for the same version may be
//    offered.
// 4. root() is the RFC 6962 root over all commits below size(), those before the start included.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/units.h"
#include "crypto/merkle.h"
#include "format/signed_commit.h"

namespace cairn::format {

class ChainVerifier {
 public:
  // The point from which a chain goes on whose older part was pruned and is trusted.
  struct Start {
    Address prev;                               // commit_b3 of the version before the first
    std::optional<Governance> governance = {};  // of the version before; without it approvals go unchecked
    crypto::MerkleFrontier leaves = {};         // of the versions before: its size is the first version
    std::optional<WallTime> committed_at = {};  // of the version before, where known
  };

  explicit ChainVerifier(const TrustRoots& roots) : roots_(roots) {}
  explicit ChainVerifier(Start start);

  // Takes the commit of version size(), and its payload where there is one. Without the payload only the
  // commit itself is checked, and the signers of the version after it are unknown. Errors: `malformed`,
  // `chain_mismatch` (the commit does not follow), `integrity` (the payload is another one), and those of
  // check_quorum.
  Result<> take(ByteView commit, std::optional<ByteView> payload);

  // The next version, which is also the number of leaves.
  std::uint64_t size() const noexcept { return leaves_.size(); }
  crypto::MerkleHash root() const noexcept { return leaves_.root(); }
  const crypto::MerkleFrontier& leaves() const noexcept { return leaves_; }
  // commit_b3 of the version before size().
  const Address& head() const noexcept { return prev_; }
  // The governance of the version before size(), where its payload was given.
  const std::optional<Governance>& governance() const noexcept { return governance_; }
  // Every commit taken had its payload and its approvals were checked.
  bool approvals_checked() const noexcept { return approvals_checked_; }

  // For the last refusal: the version that was expected, and the fault, as text for people.
  std::uint64_t bad_version() const noexcept { return bad_version_; }
  const std::string& why() const noexcept { return why_; }

 private:
  Result<> check_commit(const Commit& commit, ByteView bytes) const;
  // Checks the payload, and returns the governance of the version after it.
  Result<Governance> check_payload(const Commit& commit, ByteView payload) const;

  std::optional<TrustRoots> roots_;  // of genesis; absent for a chain that goes on
  Address prev_;
  std::optional<Governance> governance_;
  crypto::MerkleFrontier leaves_;
  WallTime committed_at_{0};
  bool approvals_checked_ = true;
  std::uint64_t bad_version_ = 0;
  std::string why_;
};

}  // namespace cairn::format
