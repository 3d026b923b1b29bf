// `cairn registry commit` and `supersede`: an approved proposal becomes the next version.
#include <fmt/format.h>

#include "cairn/capability.h"
#include "cairn/registry_print.h"
#include "cairn/registry_signing.h"
#include "cairn/registry_words.h"
#include "cairn/session.h"
#include "cairn/verbs.h"

namespace cairn::cli {
namespace {

using client::Committed;
using client::Outcome;

// `signing`: approves it first, with the same request.
Task<Outcome<Committed>> send(Call call, Session* session, std::string id, bool supersede,
                              const Signing* signing) {
  if (supersede) co_return co_await session->registry->supersede(call, id);
  std::vector<format::Approval> approvals;
  if (signing != nullptr) {
    auto approval = co_await review_and_sign(call, session, id, signing);
    // A committed proposal needs no approval any more, and the answer is the same as the first time.
    if (!approval && approval.error().code() != ErrorCode::conflict) co_return fail(approval.error());
    if (approval) approvals.push_back(std::move(*approval));
  }
  co_return co_await session->registry->commit(call, id, std::move(approvals));
}

Task<Exit> commit(Call call, Session* session, bool supersede, const Signing* signing) {
  const Terminal& terminal = session->terminal;
  const std::string& id = session->invocation.arguments[0];
  auto done = co_await send(call, session, id, supersede, signing);
  if (!done && done.error().code() == ErrorCode::conflict) {
    const auto supersedes = co_await does_supersede(call, session, id);
    if (supersedes && *supersedes != supersede) done.error().hint = committing_command(*supersedes, id);
  }
  if (!done) co_return complain(terminal, done.error());
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("proposal_id", id);
    write_head_fields(done->head, json);
    json.field("fresh", done->fresh).end_object().finish();
    terminal.line(text);
    co_return Exit::ok;
  }
  print_head(terminal, done->head);
  if (!done->fresh) terminal.say("it was committed before");
  co_return Exit::ok;
}

int commit_proposal(const Invocation& invocation, bool supersede) {
  if (!client::is_proposal_id(invocation.arguments[0]))
    return complain_usage(invocation,
                          fmt::format("`{}` is not a proposal's id", printable(invocation.arguments[0])),
                          "cairn registry log --pending lists them");
  std::optional<Signing> signing;
  if (invocation.has("key")) {
    auto read = read_signing(invocation);
    if (!read) return complain_failure(invocation, read.error(), "cairn key ls --data DIR lists the keys");
    signing = std::move(*read);
  }
  const Signing* with = signing ? &*signing : nullptr;
  return run_session(invocation, [supersede, with](Call call, Session* session) {
    return commit(call, session, supersede, with);
  });
}

}  // namespace

int registry_commit_verb(const Invocation& invocation) { return commit_proposal(invocation, false); }
int registry_supersede_verb(const Invocation& invocation) { return commit_proposal(invocation, true); }

}  // namespace cairn::cli
