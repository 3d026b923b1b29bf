#include "format/chain_verifier.h"

#include <utility>

#include "crypto/blake3.h"

namespace cairn::format {
namespace {

std::unexpected<Error> refuse(ErrorCode code, const char* context) noexcept {
  return fail(code, context, Side::client);
}

}  // namespace

ChainVerifier::ChainVerifier(Start start)
    : prev_(start.prev),
      governance_(std::move(start.governance)),
      leaves_(start.leaves),
      committed_at_(start.committed_at.value_or(WallTime{0})),
      approvals_checked_(governance_.has_value()) {}

Result<> ChainVerifier::take(ByteView commit, std::optional<ByteView> payload) {
  std::optional<Governance> next;
  const auto check = [&]() -> Result<Commit> {
    TRY(Commit decoded, decode_commit(commit));
    TRY_VOID(check_commit(decoded, commit));
    if (payload) {
      TRY(next, check_payload(decoded, *payload));
    }
    // Genesis is approved by its own signers.
    const std::optional<Governance>& voters = size() == 0 ? next : governance_;
    if (voters) TRY_VOID(check_quorum(*voters, decoded.payload_b3, decoded.approvals));
    return decoded;
  };
  const auto taken = check();
  if (!taken) {
    bad_version_ = size();
    why_ = "version " + std::to_string(bad_version_) + ": " + taken.error().context;
    return fail(taken.error());
  }
  prev_ = commit_b3(commit);
  governance_ = std::move(next);
  leaves_.append(crypto::hash_leaf(commit));
  committed_at_ = taken->committed_at;
  approvals_checked_ = approvals_checked_ && payload.has_value();
  return {};
}

Result<> ChainVerifier::check_commit(const Commit& commit, ByteView bytes) const {
  if (commit.version != size())
    return refuse(ErrorCode::chain_mismatch, "the commit is of another version than the next");
  if (commit.prev != prev_)
    return refuse(ErrorCode::chain_mismatch, "the commit's prev is not the hash of the commit before it");
  if (commit.committed_at < committed_at_)
    return refuse(ErrorCode::chain_mismatch, "the commit is older than the one before it");
  if (size() > 0 || !roots_) return {};
  if (commit_b3(bytes) != roots_->genesis_commit_b3)
    return refuse(ErrorCode::chain_mismatch, "the commit is not the genesis that the trust roots name");
  if (commit.payload_b3 != roots_->genesis_payload_b3)
    return refuse(ErrorCode::chain_mismatch, "the payload_b3 is not the genesis that the trust roots name");
  return {};
}

Result<Governance> ChainVerifier::check_payload(const Commit& commit, ByteView payload) const {
  if (crypto::hash_object(payload) != commit.payload_b3)
    return refuse(ErrorCode::integrity, "the payload is not the one its commit names");
  TRY(const DescriptorSet set, decode_descriptor_set(payload));
  if (set.version != commit.version)
    return refuse(ErrorCode::chain_mismatch, "the payload is of another version than its commit");
  if (set.prev != commit.prev)
    return refuse(ErrorCode::chain_mismatch, "the payload follows another commit than its own does");
  if (set.expiry && commit.committed_at > *set.expiry)
    return refuse(ErrorCode::chain_mismatch, "the commit was made after the payload's expiry");
  return read_governance(set.items);
}

}  // namespace cairn::format
