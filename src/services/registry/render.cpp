#include "services/registry/render.h"

#include "codec/base64.h"

namespace cairn::registry {

using codec::JsonWriter;

namespace {

void write_head_fields(JsonWriter& json, const Head& head) {
  json.field("version", head.version)
      .field("payload_b3", format_address(head.payload_b3))
      .field("commit_b3", format_address(head.commit_b3))
      .field("committed_at", format_rfc3339(head.committed_at));
}

}  // namespace

void write_head(JsonWriter& json, const Head& head) {
  json.begin_object();
  write_head_fields(json, head);
  json.end_object();
}

void write_head(JsonWriter& json, const Head& head, const Address& prev,
                const std::optional<crypto::MerkleHash>& root) {
  json.begin_object();
  write_head_fields(json, head);
  json.field("prev", format_address(prev));
  if (root) json.field("size", head.version + 1).field("root", codec::encode_base64(*root));
  json.end_object();
}

Result<std::string> render(const Artifact& artifact) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  write_head_fields(json, artifact.head);
  const auto commit = format::decode_commit(as_bytes(artifact.commit));
  const auto set = format::decode_descriptor_set(as_bytes(artifact.payload));
  if (!commit || !set) return fail(ErrorCode::integrity, "a stored version does not decode");
  json.field("prev", format_address(commit->prev));
  if (set->supersede_of) json.field("supersedes", *set->supersede_of);
  if (artifact.superseded) json.field("superseded_by", artifact.head.version + 1);
  json.key("approvals").begin_array();
  for (const format::Approval& approval : commit->approvals) format::write_approval_json(approval, json);
  json.end_array().key("payload");
  format::write_set_json(*set, json);
  json.field("payload_cbor", codec::encode_base64(as_bytes(artifact.payload)))
      .field("commit_cbor", codec::encode_base64(as_bytes(artifact.commit)));
  json.end_object().finish();
  return out;
}

void write_pending(JsonWriter& json, const Pending& pending) {
  json.field("proposal_id", format_ulid(pending.id))
      .field("version", pending.set.version)
      .field("prev", format_address(pending.set.prev))
      .field("payload_b3", format_address(pending.payload_b3))
      .field("created_at", format_rfc3339(pending.set.created_at))
      .field("expires_at", format_rfc3339(pending.expires));
  if (pending.set.supersede_of) json.field("supersede_of", *pending.set.supersede_of);
  if (pending.set.reason) json.field("reason", *pending.set.reason);
  json.key("approvals").begin_array();
  for (const format::Approval& approval : pending.approvals) format::write_approval_json(approval, json);
  json.end_array();
}

void write_event(JsonWriter& json, const AuditSlot& slot) {
  const AuditEvent& event = slot.event;
  json.begin_object().field("sequence", slot.sequence).field("at", format_rfc3339(event.at));
  json.field("op", event.op).field("code", event.code).field("count", event.count);
  if (!event.who.empty()) json.field("who", event.who);
  if (event.id) json.field("proposal_id", format_ulid(*event.id));
  if (event.hash) json.field("hash", format_address(*event.hash));
  json.end_object();
}

}  // namespace cairn::registry
