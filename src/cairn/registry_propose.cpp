// `cairn registry propose`: the next version, from a file or from the present head.
#include <fmt/format.h>

#include <algorithm>

#include "cairn/capability.h"
#include "cairn/local_files.h"
#include "cairn/registry_print.h"
#include "cairn/registry_words.h"
#include "cairn/session.h"
#include "cairn/verbs.h"
#include "codec/base64.h"
#include "codec/json_reader.h"
#include "crypto/blake3.h"
#include "format/registry_field.h"

namespace cairn::cli {
namespace {

constexpr std::string_view set_hint =
    R"(it is {"schema_version":"1.0.0","items":[ITEM, …]}; the items of now: cairn registry show head --json | jq .payload.items)";
constexpr std::string_view item_hint =
    R"(an item is as in {"type":"region","id":"eu"}; docs/formats/registry.md has the types and their fields)";

using client::Failure;
using client::Outcome;
using client::RegistryProposal;
using client::RegistryVersion;
using format::ProposalDraft;

// The command line's request, read and checked before the server is asked.
struct Wish {
  std::optional<ProposalDraft> whole;  // of a file
  std::vector<std::string> add;
  std::vector<std::pair<std::string, std::string>> remove;  // type, id
  std::optional<WallTime> expiry;
  std::optional<std::uint64_t> supersede_of;
  std::optional<std::string> reason;
};

Outcome<std::string> read_item(const std::string& given) {
  const bool is_text = given.starts_with('{');
  std::string text = given;
  if (!is_text) {
    TRY(text, read_input(given, 1 << 20));
  }
  codec::JsonReader reader;
  const std::string_view named = is_text ? "--add" : std::string_view(given);
  const auto value = reader.parse(text);
  if (!value) return fail(Failure(ErrorCode::malformed, fmt::format("{}: {}", named, reader.detail())));
  auto item = format::item_from_json(*value);
  if (!item) return fail(Failure(ErrorCode::malformed, fmt::format("{}: {}", named, reader.detail())));
  return std::move(*item);
}

Outcome<> read_changes(const Invocation& invocation, Wish& wish) {
  for (const std::string& given : invocation.all("add")) {
    TRY(std::string item, read_item(given));
    wish.add.push_back(std::move(item));
  }
  for (const std::string& given : invocation.all("remove")) {
    const std::size_t colon = given.find(':');
    if (colon == given.npos || colon == 0)
      return fail(Failure(ErrorCode::invalid, fmt::format("--remove {}: must be TYPE:ID", printable(given))));
    wish.remove.emplace_back(given.substr(0, colon), given.substr(colon + 1));
  }
  if (const auto text = invocation.find("expiry")) {
    wish.expiry = parse_when(*text);
    if (!wish.expiry || *wish.expiry > format::registry_time_max)
      return fail(Failure(ErrorCode::invalid, "--expiry is neither a span (1h) nor a time in RFC 3339"));
  }
  wish.supersede_of =
      invocation.has("supersede-of") ? read_number(invocation, "supersede-of", 0) : std::nullopt;
  if (invocation.has("supersede-of") && !wish.supersede_of)
    return fail(Failure(ErrorCode::invalid, "--supersede-of is a version"));
  if (const auto text = invocation.find("reason")) wish.reason = *text;
  return {};
}

Outcome<ProposalDraft> read_draft(const std::string& path) {
  TRY(const std::string text, read_input(path, format::descriptor_set_size_max));
  std::string detail;
  auto draft = format::parse_proposal_json(text, detail);
  if (!draft)
    return fail(Failure(ErrorCode::malformed, fmt::format("{}: {}", path == "-" ? "stdin" : path,
                                                          detail.empty() ? draft.error().context : detail)));
  return std::move(*draft);
}

// The head's items with the changes.
Outcome<std::vector<std::string>> change_items(std::vector<std::string> items, const Wish& wish) {
  for (const auto& [type, id] : wish.remove) {
    const auto gone = std::erase_if(items, [&](const std::string& item) {
      return format::name_of_item(as_bytes(item)) == format::ItemName{type, id};
    });
    if (gone == 0)
      return fail(Failure(ErrorCode::not_found,
                          fmt::format("the head has no {} {}", printable(type), printable(id))));
  }
  for (const std::string& item : wish.add) {
    const format::ItemName name = format::name_of_item(as_bytes(item));
    const auto at = std::ranges::find_if(
        items, [&](const std::string& one) { return format::name_of_item(as_bytes(one)) == name; });
    if (at == items.end())
      items.push_back(item);
    else
      *at = item;
  }
  return items;
}

Outcome<ProposalDraft> make_draft(const Wish& wish, const RegistryVersion& head) {
  ProposalDraft draft;
  if (wish.whole) {
    draft = *wish.whole;
  } else {
    TRY(draft.items, change_items(head.set.items, wish));
  }
  if (wish.expiry) draft.expiry = wish.expiry;
  if (wish.supersede_of) draft.supersede_of = wish.supersede_of;
  if (wish.reason) draft.reason = wish.reason;
  if (draft.supersede_of.has_value() != draft.reason.has_value())
    return fail(Failure(ErrorCode::invalid, "superseding needs a version and a reason, both"));
  if (const auto right = format::check_next_items(draft.items); !right)
    return fail(Failure(ErrorCode::malformed, right.error().context));
  return draft;
}

Exit tell(const Session& session, const RegistryProposal& made, const RegistryVersion& head) {
  const Terminal& terminal = session.terminal;
  if (const auto to = session.invocation.find("output"))
    if (const auto written = write_whole(std::string(*to), made.payload); !written)
      return complain(terminal, written.error());
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("proposal_id", made.id).field("version", made.version);
    json.field("prev", format_address(made.prev)).field("payload_b3", format_address(made.payload_b3));
    json.field("payload", codec::encode_base64(as_bytes(made.payload)));
    json.field("expires_at", format_rfc3339(made.expires_at)).end_object().finish();
    terminal.line(text);
    return Exit::ok;
  }
  terminal.line(terminal.quiet() ? made.id
                                 : fmt::format("{}  version {}  {}", made.id, made.version,
                                               format_address(made.payload_b3)));
  if (const auto set = format::decode_descriptor_set(as_bytes(made.payload)))
    say_change(terminal, compare_sets(head.set.items, set->items));
  terminal.say(fmt::format("until {}; next: cairn registry approve {} --key NAME",
                           format_rfc3339(made.expires_at), made.id));
  return Exit::ok;
}

Task<Exit> propose(Call call, Session* session, const Wish* wish) {
  const Terminal& terminal = session->terminal;
  const auto newest = co_await session->registry->head(call);
  if (!newest) co_return complain(terminal, newest.error());
  const auto head = co_await session->registry->version(call, newest->version);
  if (!head) co_return complain(terminal, head.error());
  auto draft = make_draft(*wish, *head);
  if (!draft) co_return complain(terminal, draft.error());
  const auto made = co_await session->registry->propose(call, std::move(*draft));
  if (!made) co_return complain(terminal, made.error());
  // A set that was built from one head must not follow another head: it would undo the changes in between.
  if (!wish->whole && made->prev != head->head.commit_b3)
    co_return complain(terminal,
                       Failure(ErrorCode::chain_mismatch,
                               fmt::format("the head moved on meanwhile; do not approve {}", made->id)));
  co_return tell(*session, *made, *head);
}

}  // namespace

int registry_propose_verb(const Invocation& invocation) {
  const bool by_file = !invocation.arguments.empty();
  if (by_file && (invocation.has("add") || invocation.has("remove")))
    return complain_usage(invocation, "either a file with the whole set, or --add and --remove");
  if (!by_file && !invocation.has("add") && !invocation.has("remove") && !invocation.has("supersede-of"))
    return complain_usage(invocation, "say what: a FILE, --add, --remove or --supersede-of",
                          R"(cairn registry propose --add '{"type":"region","id":"eu"}')");
  crypto::warm_up();
  Wish wish;
  if (const auto read = read_changes(invocation, wish); !read) {
    if (read.error().code() == ErrorCode::invalid) return complain_usage(invocation, read.error().message);
    return complain_failure(invocation, read.error(),
                            read.error().code() == ErrorCode::malformed ? item_hint : "");
  }
  if (by_file) {
    auto draft = read_draft(invocation.arguments[0]);
    if (!draft)
      return complain_failure(invocation, draft.error(),
                              draft.error().code() == ErrorCode::malformed ? set_hint : "");
    wish.whole = std::move(*draft);
  }
  return run_session(invocation,
                     [&wish](Call call, Session* session) { return propose(call, session, &wish); });
}

}  // namespace cairn::cli
