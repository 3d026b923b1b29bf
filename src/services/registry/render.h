// Heads, versions, proposals and events of the audit trail as JSON.
#pragma once

#include <string>

#include "codec/json_writer.h"
#include "services/registry/port.h"

namespace cairn::registry {

// {"version","payload_b3","commit_b3","committed_at"}
void write_head(codec::JsonWriter& json, const Head& head);
// The same with "prev" and, where the tree is known, its "size" and "root" at that head.
void write_head(codec::JsonWriter& json, const Head& head, const Address& prev,
                const std::optional<crypto::MerkleHash>& root);
// The answer about one version. `integrity` when its bytes are not those of a version.
Result<std::string> render(const Artifact& artifact);
// A pending proposal without its payload: the fields of an open object.
void write_pending(codec::JsonWriter& json, const Pending& pending);
// {"sequence","at","op","code","count","who"?,"proposal_id"?,"hash"?}
void write_event(codec::JsonWriter& json, const AuditSlot& slot);

}  // namespace cairn::registry
