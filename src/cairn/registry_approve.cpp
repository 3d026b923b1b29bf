// `cairn registry approve`: a signature over a proposal, with the server or without any.
#include <fmt/format.h>

#include "cairn/capability.h"
#include "cairn/key_file.h"
#include "cairn/local_files.h"
#include "cairn/registry_print.h"
#include "cairn/registry_signing.h"
#include "cairn/registry_words.h"
#include "cairn/session.h"
#include "cairn/verbs.h"
#include "codec/json_reader.h"
#include "crypto/blake3.h"
#include "io/process.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;
using format::Approval;

// The bytes to sign: raw, or inside the JSON that propose answered. Neither is trusted.
Outcome<std::string> read_payload(const std::string& path) {
  TRY(std::string bytes, read_input(path, 2 * format::descriptor_set_size_max));
  if (!bytes.starts_with('{')) return bytes;
  auto proposal = client::parse_proposal_answer(bytes);
  if (!proposal)
    return fail(Failure(proposal.error().code(), fmt::format("{}: {}", path, proposal.error().message)));
  if (proposal->payload.empty())
    return fail(Failure(ErrorCode::malformed, fmt::format("{}: it has no payload", path)));
  return std::move(proposal->payload);
}

std::string approval_text(const Approval& approval) {
  std::string text;
  codec::JsonWriter json(text);
  format::write_approval_json(approval, json);
  json.finish();
  return text;
}

int approve_offline(const Invocation& invocation, const std::string& path) {
  crypto::warm_up();
  const Terminal terminal(invocation);
  const auto signing = read_signing(invocation);
  if (!signing)
    return complain_failure(invocation, signing.error(), "cairn key ls --data DIR lists the keys");
  const auto payload = read_payload(path);
  if (!payload) return code_of(complain(terminal, payload.error()));
  const auto set = format::decode_descriptor_set(as_bytes(*payload));
  if (!set) {
    terminal.complain("malformed",
                      fmt::format("{} is not a proposal's payload: {}", path, set.error().context), {},
                      "cairn registry propose … -o FILE writes it");
    return code_of(Exit::failed);
  }
  const Address payload_b3 = crypto::hash_object(as_bytes(*payload));
  say_what_is_signed(terminal, *set, payload_b3, nullptr);
  const std::string text = approval_text(signing->sign(payload_b3));
  const std::string to(invocation.get("output", "-"));
  if (const auto written = write_whole(to, text + "\n"); !written)
    return code_of(complain(terminal, written.error()));
  if (to != "-") {
    if (terminal.json()) terminal.line(text);
    terminal.say(fmt::format("signed by {}; next: cairn registry approve ID --from {}", signing->signer, to));
  }
  return code_of(Exit::ok);
}

void tell(const Terminal& terminal, const std::string& id, const Approval& approval,
          const client::ApprovalCount& count) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("proposal_id", id).field("signer_id", approval.signer_id);
    json.field("approvals", count.approvals).key("quorum").begin_object();
    json.field("m", count.m).field("n", count.n).end_object().end_object().finish();
    terminal.line(text);
    return;
  }
  if (terminal.quiet()) return;
  terminal.line(fmt::format("{}  approved by {}  {} of {} needed ({} signers)", id,
                            printable(approval.signer_id), count.approvals, count.m, count.n));
}

Task<> say_next(Call call, Session* session, std::string id) {
  const auto supersedes = co_await does_supersede(call, session, id);
  if (supersedes) session->terminal.say("next: " + committing_command(*supersedes, id));
}

// `signing`: signs here; else `ready` was signed elsewhere.
Task<Exit> approve(Call call, Session* session, const Signing* signing, const Approval* ready) {
  const std::string& id = session->invocation.arguments[0];
  Outcome<Approval> approval;
  if (signing != nullptr)
    approval = co_await review_and_sign(call, session, id, signing);
  else
    approval = *ready;
  if (!approval) co_return complain(session->terminal, approval.error());
  const auto count = co_await session->registry->approve(call, id, *approval);
  if (!count) co_return complain(session->terminal, count.error());
  tell(session->terminal, id, *approval, *count);
  if (count->approvals >= count->m && !session->terminal.quiet() && !session->terminal.json())
    co_await say_next(call, session, id);
  co_return Exit::ok;
}

int approve_from(const Invocation& invocation, const std::string& path) {
  const auto text = read_input(path, 64 << 10);
  if (!text) return complain_failure(invocation, text.error());
  std::string detail;
  const auto ready = format::parse_approval_json(*text, detail);
  if (!ready)
    return complain_failure(invocation, Failure(ErrorCode::malformed, fmt::format("{}: {}", path, detail)),
                            "cairn registry approve --offline PAYLOAD --key NAME -o FILE makes one");
  const Approval* approval = &*ready;
  return run_session(invocation, [approval](Call call, Session* session) {
    return approve(call, session, nullptr, approval);
  });
}

}  // namespace

int registry_approve_verb(const Invocation& invocation) {
  const auto offline = invocation.find("offline"), from = invocation.find("from");
  const bool named = !invocation.arguments.empty();
  if (offline && (named || from))
    return complain_usage(invocation, "--offline asks nobody: no ID, no --from");
  if (!offline && !named) return complain_usage(invocation, "which proposal? ID, or --offline PAYLOAD");
  if (!offline && invocation.has("output")) return complain_usage(invocation, "--output goes with --offline");
  if (named && !client::is_proposal_id(invocation.arguments[0]))
    return complain_usage(invocation,
                          fmt::format("`{}` is not a proposal's id", printable(invocation.arguments[0])),
                          "cairn registry log --pending lists them");
  if (from && (invocation.has("key") || invocation.has("signer")))
    return complain_usage(invocation, "--from sends what was signed elsewhere: no --key, no --signer");
  if (!from && !invocation.has("key"))
    return complain_usage(invocation, "--key NAME says whose key signs", "cairn key ls lists them");
  if (!from && !is_key_name(invocation.get("key", "")))
    return complain_usage(invocation, "--key is the name of a key, not of a file", "cairn key ls lists them");
  if (offline) return approve_offline(invocation, std::string(*offline));
  if (from) return approve_from(invocation, std::string(*from));
  const auto signing = read_signing(invocation);
  if (!signing)
    return complain_failure(invocation, signing.error(), "cairn key ls --data DIR lists the keys");
  const Signing* with = &*signing;
  return run_session(invocation,
                     [with](Call call, Session* session) { return approve(call, session, with, nullptr); });
}

}  // namespace cairn::cli
