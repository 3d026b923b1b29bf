// `cairn resolve`: what a name or an address stands for, whoever knows it.
#include <fmt/format.h>

#include "cairn/naming.h"
#include "cairn/registry_words.h"
#include "cairn/verbs.h"
#include "codec/json_writer.h"

namespace cairn::cli {
namespace {

void print_resolved(const Terminal& terminal, const client::Resolved& found) {
  const std::string address = format_address(found.manifest);
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("key", found.key);
    json.field("kind", std::string_view(found.kind == client::Resolved::Kind::name ? "name" : "cid"));
    json.field("manifest", address).field("source", found.source).field("etag", found.etag);
    json.field("freshness_s", found.freshness_s).end_object().finish();
    terminal.line(text);
  } else if (terminal.quiet()) {
    terminal.line(address);
  } else {
    terminal.line(fmt::format("{}  {}  {}", address, printable(found.key), printable(found.source)));
  }
}

Task<Exit> resolve(Call call, Session* session) {
  const std::string& key = session->invocation.arguments[0];
  auto index = co_await session->index->connect(call);
  if (!index) co_return complain(session->terminal, index.error());
  const auto found =
      co_await (*index)->resolve(call.within(resolve_patience), key, session->invocation.has("fresh"));
  if (!found) co_return complain(session->terminal, found.error(), key);
  print_resolved(session->terminal, *found);
  co_return Exit::ok;
}

}  // namespace

int resolve_verb(const Invocation& invocation) {
  const std::string& key = invocation.arguments[0];
  const std::string_view name = std::string_view(key).substr(key.starts_with("name:") ? 5 : 0);
  if (!parse_address(key) && !format::is_name(name))
    return complain_usage(invocation, fmt::format("`{}` is neither a name nor an address", printable(key)),
                          "docs/guide, name:docs/guide, or `b3:` and 64 hex digits");
  return run_session(invocation, resolve);
}

}  // namespace cairn::cli
