// `cairn rm`, `pin` and `unpin`: one request for each address.
#include <fmt/format.h>

#include "cairn/objects.h"
#include "cairn/refusal.h"
#include "cairn/verbs.h"
#include "client/reference.h"
#include "codec/json_writer.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;
using Change = Task<Outcome<>> (client::StorageClient::*)(Call, Address);

Task<Outcome<Address>> change_one(Call call, Session* session, std::string name, Change change) {
  const auto reference = client::parse_reference(name);
  if (!reference || !reference->path.empty())
    co_return fail(Failure(ErrorCode::invalid, "an object is meant, not a path inside one"));
  CO_TRY(const Address address, co_await client::resolve(call, session->storage, *reference));
  CO_TRY_VOID(co_await (session->storage->*change)(call, address));
  co_return address;
}

Task<Exit> change_all(Call call, Session* session, Change change, std::string_view done) {
  const Terminal& terminal = session->terminal;
  ExitOfSeveral exits;
  Refusal refusal(session);
  for (const std::string& name : session->invocation.arguments) {
    if (refusal.repeats()) {
      refusal.skip(1, exits);
      continue;
    }
    const auto changed = co_await change_one(call, session, name, change);
    exits.add(changed ? Exit::ok : exit_of(changed.error()));
    if (call.stopped()) co_return Exit::interrupted;
    if (!changed) {
      refusal.add(changed.error());
      refusal.tell(changed.error(), name);
    } else if (terminal.json()) {
      std::string text;
      codec::JsonWriter json(text);
      json.begin_object()
          .field("address", format_address(*changed))
          .field("done", done)
          .end_object()
          .finish();
      terminal.line(text);
    } else if (!terminal.quiet()) {
      terminal.line(fmt::format("{}  {}", format_address(*changed), done));
    }
  }
  refusal.conclude();
  co_return exits.exit();
}

Task<Exit> remove_all(Call call, Session* session) {
  return change_all(call, session, &client::StorageClient::remove, "removed");
}
Task<Exit> pin_all(Call call, Session* session) {
  return change_all(call, session, &client::StorageClient::pin, "pinned");
}
Task<Exit> unpin_all(Call call, Session* session) {
  return change_all(call, session, &client::StorageClient::unpin, "unpinned");
}

}  // namespace

int rm_verb(const Invocation& invocation) { return ask_about_objects(invocation, remove_all); }
int pin_verb(const Invocation& invocation) { return ask_about_objects(invocation, pin_all); }
int unpin_verb(const Invocation& invocation) { return ask_about_objects(invocation, unpin_all); }

}  // namespace cairn::cli
