// Parses the registry's answers from JSON. Used members are checked strictly; unknown ones, which later
// versions may add, are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/registry_client.h"
#include "codec/json_reader.h"

namespace cairn::client {

Result<RegistryHead> parse_head(const codec::JsonValue& value);
// The one list of an answer: `{"commits":[…]}`.
Result<std::vector<RegistryHead>> parse_heads(const codec::JsonValue& root);
// Decodes the payload, and hashes payload and commit: `integrity` where a hash is not the stated one.
Result<RegistryVersion> parse_version(const codec::JsonValue& root);
// `payload` may be missing; one that is there must hash to payload_b3 (`integrity`).
Result<RegistryProposal> parse_proposal(const codec::JsonValue& value);
Result<ProposalPage> parse_proposals(const codec::JsonValue& root);
Result<AuditPage> parse_audit(const codec::JsonValue& root);
Result<ApprovalCount> parse_approval_count(const codec::JsonValue& root);
Result<std::vector<crypto::MerkleHash>> parse_hashes(const codec::JsonValue& root);

}  // namespace cairn::client
