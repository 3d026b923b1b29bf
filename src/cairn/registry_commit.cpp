// `cairn registry commit` and `supersede`: an approved proposal becomes the next version.
#include <fmt/format.h>

#include "cairn/registry_print.h"
#include "cairn/registry_words.h"
#include "cairn/session.h"
#include "cairn/verbs.h"

namespace cairn::cli {
namespace {

using client::Committed;
using client::Outcome;
using Way = Task<Outcome<Committed>> (client::RegistryClient::*)(Call, std::string);

Task<Exit> commit_by(Call call, Session* session, Way way) {
  const Terminal& terminal = session->terminal;
  const std::string& id = session->invocation.arguments[0];
  const auto done = co_await (session->registry->*way)(call, id);
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

Task<Exit> commit(Call call, Session* session) {
  return commit_by(call, session, &client::RegistryClient::commit);
}
Task<Exit> supersede(Call call, Session* session) {
  return commit_by(call, session, &client::RegistryClient::supersede);
}

int with_proposal(const Invocation& invocation, const Work& work) {
  if (!client::is_proposal_id(invocation.arguments[0]))
    return complain_usage(invocation,
                          fmt::format("`{}` is not a proposal's id", printable(invocation.arguments[0])),
                          "cairn registry log --pending lists them");
  return run_session(invocation, work);
}

}  // namespace

int registry_commit_verb(const Invocation& invocation) { return with_proposal(invocation, commit); }
int registry_supersede_verb(const Invocation& invocation) { return with_proposal(invocation, supersede); }

}  // namespace cairn::cli
