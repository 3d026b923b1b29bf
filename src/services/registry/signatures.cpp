#include "services/registry/signatures.h"

#include "services/registry/registry.h"

namespace cairn::registry {

void check_signatures(Registry& registry, Mutation& mutation) {
  const std::vector<format::Approval> given = std::exchange(mutation.given, {});
  if (given.empty()) return;
  struct Asked {
    bool pending = false;
    Address payload_b3;
    format::Governance governance;
  };
  const Asked asked = registry.ledger().with([&](Ledger& ledger) {
    Asked out;
    if (const Pending* pending = ledger.find_pending(mutation.id)) {
      out.pending = true;
      out.payload_b3 = pending->payload_b3;
      out.governance = ledger.governance();
    }
    return out;
  });
  // The committer refuses a proposal that is not pending, and knows why.
  if (!asked.pending) return;
  mutation.payload_b3 = asked.payload_b3;
  for (const format::Approval& approval : given) {
    const format::Signer* signer = asked.governance.find(approval.signer_id);
    if (signer != nullptr && format::verify_approval(approval, *signer, asked.payload_b3)) {
      mutation.approvals.push_back({approval, signer->key});
      continue;
    }
    mutation.op = mutation.kind == Mutation::Kind::approve ? "approve" : "commit";
    mutation.kind = Mutation::Kind::refuse;
    mutation.error = {ErrorCode::invalid_sig,
                      signer != nullptr ? "the signature is not this signer's over this payload"
                                        : "the signer is not in the signer set",
                      Side::client};
    return;
  }
}

}  // namespace cairn::registry
