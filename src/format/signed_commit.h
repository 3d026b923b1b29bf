// The documents that signers sign and that form the registry's chain: approvals, commits, genesis, and the
// trust roots that a verifier pins (docs/formats/registry.md).
//
// Decoding is strict: bytes that encode() would not have written are malformed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/units.h"
#include "codec/cbor.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "crypto/ed25519.h"
#include "format/descriptor_set.h"

namespace cairn::format {

inline constexpr std::size_t commit_size_max = 65'535;

struct Approval {
  std::string signer_id;
  std::string algo;    // an open tag; check_quorum knows only ed25519
  std::string sig;     // 64 raw bytes
  WallTime signed_at;  // a remark of the signer, not covered by the signature

  friend bool operator==(const Approval&, const Approval&) = default;
};

// `cairn-registry-approval-v1`, a zero byte, payload_b3.
std::array<std::byte, 59> approval_message(const Address& payload_b3) noexcept;
Approval sign_approval(const crypto::Ed25519Key& key, std::string signer_id, const Address& payload_b3,
                       WallTime at);
// Checks the signature alone. Whether the signer is in force is left to check_quorum().
bool verify_approval(const Approval& approval, const Signer& signer, const Address& payload_b3) noexcept;

std::string encode(const Approval& approval);
Result<Approval> decode_approval_cbor(ByteView bytes);
Result<Approval> parse_approval_json(std::string_view body, std::string& detail);
// As a part of a larger document.
Result<Approval> read_approval(const codec::JsonValue& value);
Result<Approval> read_approval(codec::CborDecoder& cbor);
void write_approval_json(const Approval& approval, codec::JsonWriter& json);

struct Commit {
  std::uint64_t version = 0;
  Address payload_b3;
  std::vector<Approval> approvals;  // at most 64, by ascending signer_id, one per signer
  Address prev;
  WallTime committed_at;

  friend bool operator==(const Commit&, const Commit&) = default;
};

// Sorts the approvals. Precondition: one per signer, and the bytes fit into commit_size_max.
std::string encode(Commit commit);
Result<Commit> decode_commit(ByteView bytes);
Address commit_b3(ByteView encoded) noexcept;

// Whether these approvals carry the payload: every one is right, and at least m are there. The first wrong
// approval decides the error: `invalid_sig` (foreign, over other bytes, or of an algo that cannot be
// checked), `duplicate_approval`, `revoked_key`. If none is wrong but there are too few: `quorum_failed`.
Result<> check_quorum(const Governance& governance, const Address& payload_b3,
                      std::span<const Approval> approvals);

// Version 0 as bytes.
struct Genesis {
  std::string payload, commit;
  friend bool operator==(const Genesis&, const Genesis&) = default;
};

std::string encode_genesis(const Genesis& genesis);
Result<Genesis> decode_genesis(ByteView bytes);
// A first version with these signers, approved by every one of them.
Result<Genesis> make_genesis(unsigned m,
                             std::vector<std::pair<std::string, const crypto::Ed25519Key*>> signers,
                             std::vector<std::string> more_items, WallTime now);
// Checks that payload and commit are a version 0, belong together, and are approved by the version's own
// signers.
Result<> check_genesis(const Genesis& genesis);

// The values that a verifier must know beforehand to trust a registry.
struct TrustRoots {
  Address genesis_payload_b3, genesis_commit_b3;
  std::string log_key;  // verifier key of a signed note

  friend bool operator==(const TrustRoots&, const TrustRoots&) = default;
};

Result<TrustRoots> parse_trust_roots(std::string_view text, std::string& detail);
std::string format_trust_roots(const TrustRoots& roots);

}  // namespace cairn::format
