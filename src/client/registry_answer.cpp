#include "client/registry_answer.h"

#include <algorithm>
#include <cstring>

#include "codec/base64.h"
#include "crypto/blake3.h"
#include "format/registry_field.h"

namespace cairn::client {
namespace {

using codec::JsonItems;
using codec::JsonObject;
using codec::JsonValue;

std::unexpected<Error> does_not_match(const char* what) noexcept {
  return fail(ErrorCode::integrity, what, Side::upstream);
}

Result<Address> required_address(JsonObject& object, std::string_view name) {
  TRY(const JsonValue value, object.required(name));
  return format::parse_address_field(value);
}
Result<WallTime> required_time(JsonObject& object, std::string_view name) {
  TRY(const JsonValue value, object.required(name));
  return format::parse_time_field(value);
}

Result<format::Approval> parse_approval(const JsonValue& value) {
  format::Approval approval;
  TRY(JsonObject object, value.object());
  TRY(const JsonValue id, object.required("signer_id"));
  TRY(const std::string_view signer, format::parse_id_field(id));
  approval.signer_id = signer;
  TRY(const JsonValue algo, object.required("algo"));
  TRY(const std::string_view tag, format::parse_text_field(algo));
  approval.algo = tag;
  TRY(const JsonValue sig, object.required("sig"));
  TRY(approval.sig, format::parse_bytes_field(sig));
  if (approval.sig.size() != 64) return sig.refuse("expected 64 bytes");
  TRY(approval.signed_at, required_time(object, "signed_at"));
  return approval;
}

// One approval per signer, and few enough to fit into a commit.
Result<std::vector<format::Approval>> parse_approvals(const JsonItems& items) {
  constexpr std::size_t texts_max = 32 << 10;
  std::vector<format::Approval> approvals;
  std::size_t texts = 0;
  for (const JsonValue item : items) {
    TRY(format::Approval one, parse_approval(item));
    texts += one.signer_id.size() + one.algo.size();
    if (approvals.size() == format::signers_max || texts > texts_max)
      return item.refuse("too many approvals");
    if (std::ranges::find(approvals, one.signer_id, &format::Approval::signer_id) != approvals.end())
      return item.refuse("two approvals by one signer");
    approvals.push_back(std::move(one));
  }
  return approvals;
}

// Accepts either form: a mark, or the number of the version that replaced this one.
Result<bool> parse_superseded(JsonObject& object) {
  if (const auto by = object.find("superseded_by")) {
    TRY_VOID(by->as_uint());
    return true;
  }
  TRY(const auto mark, object.optional_bool("superseded"));
  return mark.value_or(false);
}

Result<RegistryHead> parse_head_fields(JsonObject& object) {
  RegistryHead head;
  TRY(head.version, object.required_uint("version"));
  TRY(head.payload_b3, required_address(object, "payload_b3"));
  TRY(head.commit_b3, required_address(object, "commit_b3"));
  TRY(head.committed_at, required_time(object, "committed_at"));
  TRY(head.superseded, parse_superseded(object));
  return head;
}

// The first array of an object, because the name of the list depends on its content.
Result<JsonItems> find_list(const JsonValue& root) {
  if (root.kind() == codec::JsonKind::array) return root.items();
  TRY(const codec::JsonFields fields, root.fields());
  for (const codec::JsonField field : fields)
    if (field.value.kind() == codec::JsonKind::array) return field.value.items();
  return root.refuse("expected a list");
}

// A payload is base64: `payload` in a proposal, `payload_cbor` beside the JSON form elsewhere.
Result<std::optional<std::string>> find_payload(JsonObject& object) {
  if (const auto beside = object.find("payload_cbor")) {
    TRY(std::string bytes, format::parse_bytes_field(*beside));
    return bytes;
  }
  const auto value = object.find("payload");
  if (!value || value->kind() != codec::JsonKind::string) return std::nullopt;
  TRY(std::string bytes, format::parse_bytes_field(*value));
  return bytes;
}

Result<crypto::MerkleHash> parse_hash(const JsonValue& value) {
  TRY(const std::string bytes, format::parse_bytes_field(value));
  crypto::MerkleHash hash;
  if (bytes.size() != hash.size()) return value.refuse("expected 32 bytes");
  std::memcpy(hash.data(), bytes.data(), hash.size());
  return hash;
}

}  // namespace

Result<RegistryHead> parse_head(const JsonValue& value) {
  TRY(JsonObject object, value.object());
  TRY(RegistryHead head, parse_head_fields(object));
  if (const auto prev = object.find("prev")) {
    TRY(head.prev, format::parse_address_field(*prev));
  }
  if (const auto root = object.find("root")) {
    TRY(head.root, parse_hash(*root));
    TRY(const std::uint64_t size, object.required_uint("size"));
    if (size == 0 || size - 1 != head.version)
      return object.refuse("size", "not the tree that ends with this head");
  }
  return head;
}

Result<std::vector<RegistryHead>> parse_heads(const JsonValue& root) {
  std::vector<RegistryHead> heads;
  TRY(const JsonItems items, find_list(root));
  for (const JsonValue item : items) {
    TRY(const RegistryHead head, parse_head(item));
    if (!heads.empty() && head.version <= heads.back().version) return item.refuse("versions must ascend");
    heads.push_back(head);
  }
  return heads;
}

Result<RegistryVersion> parse_version(const JsonValue& root) {
  RegistryVersion version;
  TRY(JsonObject object, root.object());
  TRY(version.head, parse_head_fields(object));
  TRY(const JsonItems approvals, object.required_items("approvals"));
  TRY(version.commit.approvals, parse_approvals(approvals));
  TRY(version.commit.prev, required_address(object, "prev"));
  TRY(version.supersedes, object.optional_uint("supersedes"));
  TRY(auto payload, find_payload(object));
  if (!payload) return object.refuse("payload_cbor", "missing");
  version.payload = std::move(*payload);
  version.commit.version = version.head.version;
  version.commit.payload_b3 = version.head.payload_b3;
  version.commit.committed_at = version.head.committed_at;
  if (crypto::hash_object(as_bytes(version.payload)) != version.head.payload_b3)
    return does_not_match("the payload does not hash to its payload_b3");
  if (format::commit_b3(as_bytes(encode(version.commit))) != version.head.commit_b3)
    return does_not_match("the commit does not hash to its commit_b3");
  auto set = format::decode_descriptor_set(as_bytes(version.payload));
  if (!set) return does_not_match("the payload is not a descriptor set");
  version.set = std::move(*set);
  if (version.set.version != version.head.version || version.set.prev != version.commit.prev)
    return does_not_match("the payload is of another version");
  return version;
}

Result<RegistryProposal> parse_proposal(const JsonValue& value) {
  RegistryProposal proposal;
  TRY(JsonObject object, value.object());
  TRY(const std::string_view id, object.required_string("proposal_id"));
  if (!is_proposal_id(id)) return object.refuse("proposal_id", "not a proposal's id");
  proposal.id = id;
  TRY(proposal.version, object.required_uint("version"));
  TRY(proposal.prev, required_address(object, "prev"));
  TRY(proposal.payload_b3, required_address(object, "payload_b3"));
  TRY(proposal.expires_at, required_time(object, "expires_at"));
  TRY(auto payload, find_payload(object));
  if (const auto approvals = object.find("approvals");
      approvals && approvals->kind() == codec::JsonKind::array) {
    TRY(const JsonItems items, approvals->items());
    TRY(proposal.approvals, parse_approvals(items));
  }
  if (payload) {
    proposal.payload = std::move(*payload);
    if (crypto::hash_object(as_bytes(proposal.payload)) != proposal.payload_b3)
      return does_not_match("the payload does not hash to its payload_b3");
  }
  return proposal;
}

Result<ProposalPage> parse_proposals(const JsonValue& root) {
  ProposalPage page;
  TRY(const JsonItems items, find_list(root));
  for (const JsonValue item : items) {
    TRY(RegistryProposal one, parse_proposal(item));
    page.proposals.push_back(std::move(one));
  }
  if (auto object = root.object()) {
    TRY(const auto next, object->optional_string("next"));
    if (next) page.next = *next;
    if (next && !is_proposal_id(page.next)) return does_not_match("the list goes on at no proposal");
  }
  return page;
}

Result<AuditPage> parse_audit(const JsonValue& root) {
  AuditPage page;
  TRY(JsonObject answer, root.object());
  TRY(const JsonItems items, answer.required_items("events"));
  for (const JsonValue item : items) {
    AuditEvent one;
    TRY(JsonObject object, item.object());
    TRY(one.sequence, object.required_uint("sequence"));
    TRY(one.at, required_time(object, "at"));
    TRY(const std::string_view op, object.required_string("op"));
    TRY(const std::string_view code, object.required_string("code"));
    TRY(one.count, object.required_uint("count"));
    TRY(const auto who, object.optional_string("who"));
    TRY(const auto id, object.optional_string("proposal_id"));
    one.op = op, one.code = code, one.who = who.value_or(""), one.proposal_id = id.value_or("");
    if (const auto hash = object.find("hash")) {
      TRY(one.hash, format::parse_address_field(*hash));
    }
    if (!page.events.empty() && one.sequence <= page.events.back().sequence)
      return item.refuse("the events are not in order");
    page.events.push_back(std::move(one));
  }
  TRY(page.next, answer.optional_uint("next"));
  return page;
}

Result<ApprovalCount> parse_approval_count(const JsonValue& root) {
  ApprovalCount count;
  TRY(JsonObject object, root.object());
  TRY(count.approvals, object.required_uint("approvals"));
  TRY(JsonObject quorum, object.required_object("quorum"));
  TRY(count.m, quorum.required_uint("m"));
  TRY(count.n, quorum.required_uint("n"));
  return count;
}

Result<std::vector<crypto::MerkleHash>> parse_hashes(const JsonValue& root) {
  std::vector<crypto::MerkleHash> hashes;
  TRY(JsonObject object, root.object());
  TRY(const JsonItems items, object.required_items("hashes"));
  for (const JsonValue item : items) {
    TRY(const crypto::MerkleHash hash, parse_hash(item));
    hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace cairn::client
