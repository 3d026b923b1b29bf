#include "cairn/registry_signing.h"

#include <fmt/format.h>

#include "cairn/key_file.h"
#include "cairn/registry_print.h"
#include "io/process.h"

namespace cairn::cli {

using client::Failure;
using client::Outcome;
using format::Approval;

Approval Signing::sign(const Address& payload_b3) const {
  return format::sign_approval(key, signer, payload_b3, io::wall_clock());
}

Outcome<Signing> read_signing(const Invocation& invocation) {
  const std::string name(invocation.get("key", ""));
  if (!is_key_name(name)) return fail(Failure(ErrorCode::invalid, "--key NAME says whose key signs"));
  TRY(crypto::Ed25519Key key, load_key(data_directory(invocation), name));
  return Signing{std::string(invocation.get("signer", name)), std::move(key)};
}

Task<Outcome<Approval>> review_and_sign(Call call, Session* session, std::string id, const Signing* signing) {
  CO_TRY(const client::RegistryProposal proposal, co_await session->registry->proposal(call, std::move(id)));
  const auto set = format::decode_descriptor_set(as_bytes(proposal.payload));
  if (!set) co_return fail(Failure(ErrorCode::integrity, "the proposal's payload is not a descriptor set"));
  if (set->version != proposal.version || set->prev != proposal.prev)
    co_return fail(
        Failure(ErrorCode::integrity, "the proposal's payload is of another version than it says"));
  if (!session->terminal.quiet() && !session->terminal.json()) {
    CO_TRY(const client::RegistryHead newest, co_await session->registry->head(call));
    CO_TRY(const client::RegistryVersion head, co_await session->registry->version(call, newest.version));
    if (set->prev != head.head.commit_b3)
      session->terminal.warn("the head has moved on since this was proposed: it cannot be committed");
    say_what_is_signed(session->terminal, *set, proposal.payload_b3, &head.set.items);
  }
  co_return signing->sign(proposal.payload_b3);
}

Task<Outcome<bool>> does_supersede(Call call, Session* session, std::string id) {
  CO_TRY(const client::RegistryProposal proposal, co_await session->registry->proposal(call, std::move(id)));
  const auto set = format::decode_descriptor_set(as_bytes(proposal.payload));
  if (!set) co_return fail(Failure(ErrorCode::integrity, "the proposal's payload is not a descriptor set"));
  co_return set->supersede_of.has_value();
}

std::string committing_command(bool supersedes, std::string_view id) {
  return fmt::format("cairn registry {} {}", supersedes ? "supersede" : "commit", id);
}

}  // namespace cairn::cli
