// `cairn providers`: who has an object.
#include <fmt/format.h>

#include "cairn/naming.h"
#include "cairn/registry_words.h"
#include "cairn/verbs.h"
#include "codec/json_writer.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t providers_most = 32;

bool print_provider(const Terminal& terminal, const client::Provider& one) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("id", one.id).field("addr", one.addr).field("region", one.region);
    json.field("class", one.latency_class).field("score", one.score);
    json.field("last_seen_s", one.last_seen_s).end_object().finish();
    return terminal.line(text);
  }
  if (terminal.quiet()) return terminal.line(printable(one.addr));
  return terminal.line(fmt::format("{:<24} {}  {}  {:.2f}  {} s ago", printable(one.addr), printable(one.id),
                                   one.region.empty() ? "-" : printable(one.region), one.score,
                                   one.last_seen_s));
}

Task<Exit> providers(Call call, Session* session) {
  const Invocation& invocation = session->invocation;
  const Terminal& terminal = session->terminal;
  auto index = co_await session->index->connect(call);
  if (!index) co_return complain(terminal, index.error());
  client::ProviderQuery query{.region = std::string(invocation.get("region", ""))};
  query.limit = read_number(invocation, "limit", query.limit).value_or(query.limit);
  const Address address = *parse_address(invocation.arguments[0]);
  auto found = co_await (*index)->providers(call.within(resolve_patience), address, std::move(query));
  if (!found) co_return complain(terminal, found.error(), invocation.arguments[0]);
  for (const client::Provider& one : found->providers)
    if (!print_provider(terminal, one)) co_return Exit::failed;
  if (found->providers.empty()) terminal.say("nobody is known to have it");
  co_return found->providers.empty() ? Exit::not_found : Exit::ok;
}

}  // namespace

int providers_verb(const Invocation& invocation) {
  if (!parse_address(invocation.arguments[0]))
    return complain_usage(invocation,
                          fmt::format("`{}` is not an address", printable(invocation.arguments[0])),
                          "`b3:` and 64 hex digits");
  const auto limit = read_number(invocation, "limit", 1);
  if (!limit || *limit == 0 || *limit > providers_most)
    return complain_usage(invocation, "--limit is 1 to 32");
  return run_session(invocation, providers);
}

}  // namespace cairn::cli
