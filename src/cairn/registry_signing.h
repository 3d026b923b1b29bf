// Signing a proposal with a key of the data directory, after showing the proposal.
#pragma once

#include <string>

#include "cairn/session.h"
#include "crypto/ed25519.h"
#include "format/signed_commit.h"

namespace cairn::cli {

struct Signing {
  std::string signer;
  crypto::Ed25519Key key;

  format::Approval sign(const Address& payload_b3) const;
};

// From --key, --signer and the data directory.
client::Outcome<Signing> read_signing(const Invocation& invocation);

// Shows the proposal against the present head, which it must follow, and signs it. `signing` outlives it.
// Cancel: clean.
Task<client::Outcome<format::Approval>> review_and_sign(Call call, Session* session, std::string id,
                                                        const Signing* signing);

// Whether the proposal supersedes a version: then `supersede` commits it, else `commit`. Cancel: clean.
Task<client::Outcome<bool>> does_supersede(Call call, Session* session, std::string id);
std::string committing_command(bool supersedes, std::string_view id);

}  // namespace cairn::cli
