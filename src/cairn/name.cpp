// `cairn name`: names are set, shown, listed and removed.
#include <fmt/format.h>

#include "cairn/naming.h"
#include "cairn/putting.h"
#include "cairn/registry_words.h"
#include "cairn/verbs.h"
#include "codec/json_writer.h"
#include "crypto/blake3.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::IndexClient;
using client::NamedObject;

constexpr std::uint64_t names_usual = 10'000;

std::string leads_to(const std::optional<Address>& manifest) {
  return manifest ? format_address(*manifest) : std::string("removed");
}

void write_object(const NamedObject& named, codec::JsonWriter& json) {
  json.field("name", named.name);
  if (named.manifest) json.field("manifest", format_address(*named.manifest));
  json.field("sequence", named.sequence).field("changed_at", format_rfc3339(named.changed_at));
}

void print_named(const Terminal& terminal, const NamedObject& named, std::optional<bool> fresh,
                 std::string_view alone) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object();
    write_object(named, json);
    if (fresh) json.field("fresh", *fresh);
    json.end_object().finish();
    terminal.line(text);
  } else if (terminal.quiet()) {
    terminal.line(alone);
  } else {
    terminal.line(fmt::format("{}  {}  {}  {}", named.name, leads_to(named.manifest), named.sequence,
                              format_rfc3339(named.changed_at)));
  }
}

bool print_listed(const Terminal& terminal, const client::ListedName& one) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("name", one.name).field("manifest", format_address(one.manifest));
    json.field("changed_at", format_rfc3339(one.changed_at)).end_object().finish();
    return terminal.line(text);
  }
  if (terminal.quiet()) return terminal.line(one.name);
  return terminal.line(
      fmt::format("{}  {}  {}", format_address(one.manifest), format_rfc3339(one.changed_at), one.name));
}

bool print_change(const Terminal& terminal, const client::PastChange& one) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("sequence", one.sequence).key("manifest");
    if (one.manifest)
      json.value(format_address(*one.manifest));
    else
      json.null();
    json.field("at", format_rfc3339(one.at)).field("key", format_hex(one.key));
    if (!one.by.empty()) json.field("by", one.by);
    if (!one.note.empty()) json.field("note", one.note);
    json.end_object().finish();
    return terminal.line(text);
  }
  if (terminal.quiet()) return terminal.line(fmt::format("{}", one.sequence));
  return terminal.line(
      fmt::format("{:>6}  {}  {}  {}{}", one.sequence, format_rfc3339(one.at),
                  one.manifest ? format_address(*one.manifest) : fmt::format("{:<67}", "removed"),
                  format_hex(one.key).substr(0, 16), one.note.empty() ? "" : "  " + printable(one.note)));
}

// The one object that the words behind the name stand for: an address, or what is at the paths.
Task<std::expected<Address, Exit>> find_target(Call call, Session* session, std::string* manifest) {
  const std::vector<std::string>& words = session->invocation.arguments;
  if (const auto address = parse_address(words[1]); address && words.size() == 2) co_return *address;
  Putting putting(session, false);
  co_await put_as_one(call, &putting, {words.begin() + 1, words.end()});
  putting.progress.clear();
  if (call.stopped()) co_return std::unexpected(Exit::interrupted);
  putting.refusal.conclude();
  if (putting.exit() != Exit::ok) {
    if (putting.skipped) session->terminal.warn("no name was set, because not everything was stored");
    co_return std::unexpected(putting.exit());
  }
  *manifest = std::move(putting.manifest);
  co_return putting.last.stored.address;
}

Task<Exit> set(Call call, Session* session) {
  const Terminal& terminal = session->terminal;
  auto wish = read_wish(session->invocation, session->invocation.arguments[0]);
  if (!wish) co_return complain(terminal, wish.error());
  std::string manifest;
  const auto target = co_await find_target(call, session, &manifest);
  if (!target) co_return target.error();
  wish->manifest = *target;
  const auto set = co_await set_name(call, session, *wish, std::move(manifest));
  if (!set) co_return complain(terminal, set.error(), wish->name);
  print_named(terminal, set->now, set->fresh, fmt::format("{}", set->now.sequence));
  co_return Exit::ok;
}

Task<Exit> get(Call call, Session* session) {
  const std::string& name = session->invocation.arguments[0];
  auto index = co_await session->index->connect(call);
  if (!index) co_return complain(session->terminal, index.error());
  auto named = co_await (*index)->name(call, name);
  if (!named) {
    if (named.error().code() == ErrorCode::not_found && named.error().hint.empty())
      named.error().hint = fmt::format("cairn name ls; others may know it: cairn resolve {}", name);
    co_return complain(session->terminal, named.error(), name);
  }
  print_named(session->terminal, *named, {}, leads_to(named->manifest));
  co_return Exit::ok;
}

// The most that a list is asked to give; 0 when --limit is no number.
std::uint64_t limit_of(const Invocation& invocation, std::uint64_t usual) {
  return read_number(invocation, "limit", usual).value_or(0);
}

void say_there_are_more(const Terminal& terminal, std::uint64_t shown) {
  terminal.say(fmt::format("these are the first {}; more: --limit N", shown));
}

Task<Exit> list(Call call, Session* session) {
  const Invocation& invocation = session->invocation;
  const Terminal& terminal = session->terminal;
  auto index = co_await session->index->connect(call);
  if (!index) co_return complain(terminal, index.error());
  bool reads = true;
  const std::uint64_t most = limit_of(invocation, names_usual);
  const auto whole = co_await (*index)->each_name(
      call, invocation.arguments.empty() ? std::string() : invocation.arguments[0], most,
      [&](const client::ListedName& one) { return reads = print_listed(terminal, one); });
  if (!whole) co_return complain(terminal, whole.error());
  if (!reads) co_return Exit::failed;
  if (!*whole) say_there_are_more(terminal, most);
  co_return Exit::ok;
}

Task<Exit> history(Call call, Session* session) {
  const Invocation& invocation = session->invocation;
  const Terminal& terminal = session->terminal;
  auto index = co_await session->index->connect(call);
  if (!index) co_return complain(terminal, index.error());
  bool reads = true;
  const std::uint64_t most = limit_of(invocation, names_usual);
  const auto whole = co_await (*index)->each_change(
      call, invocation.arguments[0], most,
      [&](const client::PastChange& one) { return reads = print_change(terminal, one); });
  if (!whole) co_return complain(terminal, whole.error(), invocation.arguments[0]);
  if (!reads) co_return Exit::failed;
  if (!*whole) say_there_are_more(terminal, most);
  co_return Exit::ok;
}

Task<Exit> remove(Call call, Session* session) {
  const std::string& name = session->invocation.arguments[0];
  auto index = co_await session->index->connect(call);
  if (!index) co_return complain(session->terminal, index.error());
  const auto if_match = read_if_match(session->invocation);
  if (!if_match) co_return complain(session->terminal, if_match.error());
  auto gone = co_await (*index)->remove_name(call, name, *if_match);
  if (!gone) {
    if (gone.error().code() == ErrorCode::precondition_failed)
      gone.error().hint = fmt::format("it was changed meanwhile: cairn name history {}", name);
    co_return complain(session->terminal, gone.error(), name);
  }
  print_named(session->terminal, *gone, {}, fmt::format("{}", gone->sequence));
  co_return Exit::ok;
}

int refuse_name(const Invocation& invocation) {
  return complain_usage(invocation, fmt::format("`{}` is not a name", printable(invocation.arguments[0])),
                        "1 to 255 of a-z 0-9 . _ - in segments between single slashes, as in docs/guide");
}

int refuse_limit(const Invocation& invocation) {
  return complain_usage(invocation, "--limit is a number above 0");
}

}  // namespace

int name_set_verb(const Invocation& invocation) {
  if (const auto wish = read_wish(invocation, invocation.arguments[0]); !wish)
    return complain_usage(invocation, wish.error().message);
  for (std::size_t i = 1; i < invocation.arguments.size(); ++i) {
    const std::string& word = invocation.arguments[i];
    if (word.empty()) return complain_usage(invocation, "a PATH is empty");
    if (!word.starts_with("b3:")) continue;
    if (!parse_address(word) || invocation.arguments.size() != 2)
      return complain_usage(invocation, fmt::format("`{}` is not one whole address", printable(word)),
                            "`b3:` and 64 hex digits, alone; a file that is called so: ./b3:…");
  }
  crypto::warm_up();
  const bool stores = !parse_address(invocation.arguments[1]);
  return run_session(invocation, set, stores ? Server::of_objects : Server::needed);
}

int name_get_verb(const Invocation& invocation) {
  if (!format::is_name(invocation.arguments[0])) return refuse_name(invocation);
  return run_session(invocation, get);
}

int name_ls_verb(const Invocation& invocation) {
  if (limit_of(invocation, names_usual) == 0) return refuse_limit(invocation);
  return run_session(invocation, list);
}

int name_history_verb(const Invocation& invocation) {
  if (!format::is_name(invocation.arguments[0])) return refuse_name(invocation);
  if (limit_of(invocation, names_usual) == 0) return refuse_limit(invocation);
  return run_session(invocation, history);
}

int name_rm_verb(const Invocation& invocation) {
  if (!format::is_name(invocation.arguments[0])) return refuse_name(invocation);
  if (const auto if_match = read_if_match(invocation); !if_match)
    return complain_usage(invocation, if_match.error().message);
  return run_session(invocation, remove);
}

}  // namespace cairn::cli
