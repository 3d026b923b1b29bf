// `cairn cat`, `ls` and `stat`: objects looked at.
#include <fmt/format.h>

#include "cairn/objects.h"
#include "cairn/refusal.h"
#include "cairn/verbs.h"
#include "codec/json_writer.h"

namespace cairn::cli {
namespace {

using client::Failure;

Exit complain(Session* session, const Failure& failure, std::string_view about = {}) {
  if (failure.code() != ErrorCode::cancelled) session->terminal.complain(failure, about);
  return exit_of(failure);
}
Exit complain(Refusal* refusal, const Failure& failure, std::string_view about) {
  refusal->add(failure);
  refusal->tell(failure, about);
  return exit_of(failure);
}

// One object after the other, until a failure that all others would get too.
Task<Exit> for_each(Call call, Session* session,
                    Task<Exit> (*work)(Call, Session*, std::string name, Refusal*)) {
  ExitOfSeveral exits;
  Refusal refusal(session);
  for (const std::string& name : session->invocation.arguments) {
    if (refusal.repeats())
      refusal.skip(1, exits);
    else
      exits.add(co_await work(call, session, name, &refusal));
    if (call.stopped()) co_return Exit::interrupted;
  }
  refusal.conclude();
  co_return exits.exit();
}

Task<Exit> cat_one(Call call, Session* session, std::string name, Refusal* refusal) {
  auto found = co_await find_object(call, session, name);
  if (!found) co_return complain(refusal, found.error(), name);
  co_return co_await write_to_stdout(call, session, std::move(*found), session->invocation.has("raw"));
}
Task<Exit> cat_all(Call call, Session* session) { return for_each(call, session, cat_one); }

bool list_object(const Terminal& terminal, const client::ObjectInfo& one) {
  const std::string address = format_address(one.address);
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("address", address).field("size", one.size);
    if (one.pinned) json.field("pinned", *one.pinned);
    json.end_object().finish();
    return terminal.line(text);
  }
  if (terminal.quiet()) return terminal.line(address);
  return terminal.line(
      fmt::format("{}  {:>12}{}", address, one.size, one.pinned.value_or(false) ? "  pinned" : ""));
}

Task<Exit> list_objects(Call call, Session* session) {
  client::ListQuery query;
  query.prefix = session->invocation.get("prefix", "");
  for (;;) {
    auto page = co_await session->storage->list(call, query);
    if (!page) co_return complain(session, page.error());
    for (const client::ObjectInfo& one : page->objects)
      if (!list_object(session->terminal, one)) co_return Exit::failed;
    if (page->next.empty()) co_return Exit::ok;
    if (page->next == query.after)
      co_return complain(session, Failure(ErrorCode::upstream, "the server's list does not go on"));
    query.after = std::move(page->next);
  }
}

void list_entry(const Terminal& terminal, const format::ManifestEntry& entry) {
  const std::string address = format_address(entry.address);
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("path", entry.path).field("address", address).field("size", entry.size);
    json.field("type", entry.media_type).end_object().finish();
    terminal.line(text);
  } else if (terminal.quiet()) {
    terminal.line(address);
  } else {
    terminal.line(fmt::format("{}  {:>12}  {}", address, entry.size, printable(entry.path)));
  }
}

Task<Exit> list_manifest(Call call, Session* session, std::string name, Refusal* refusal) {
  auto found = co_await find_object(call, session, name);
  if (!found) co_return complain(refusal, found.error(), name);
  if (!found->is_manifest()) {
    session->terminal.complain("invalid", fmt::format("{} is not a directory", printable(name)), {},
                               fmt::format("cairn stat {}", printable(name)));
    co_return Exit::failed;
  }
  auto manifest = co_await read_manifest(call, session, found->info.address);
  if (!manifest) co_return complain(refusal, manifest.error(), name);
  for (const format::ManifestEntry& entry : manifest->entries) list_entry(session->terminal, entry);
  co_return Exit::ok;
}

Task<Exit> list_all(Call call, Session* session) {
  if (session->invocation.arguments.empty()) co_return co_await list_objects(call, session);
  co_return co_await for_each(call, session, list_manifest);
}

void tell_facts(const Terminal& terminal, const Found& found, const format::Manifest* manifest) {
  const std::string address = format_address(found.info.address);
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("address", address).field("size", found.info.size);
    json.field("type", found.info.media_type);
    if (found.info.pinned) json.field("pinned", *found.info.pinned);
    if (manifest != nullptr) {
      std::uint64_t sum = 0;
      for (const format::ManifestEntry& entry : manifest->entries) sum += entry.size;
      json.field("kind", format::name_of(manifest->kind)).field("entries", manifest->entries.size());
      json.field("content_size", sum);
      if (manifest->title) json.field("title", *manifest->title);
      if (manifest->created) json.field("created", format_rfc3339(*manifest->created));
      if (manifest->previous) json.field("previous", format_address(*manifest->previous));
    }
    json.end_object().finish();
    terminal.line(text);
    return;
  }
  if (terminal.quiet()) {
    terminal.line(address);
    return;
  }
  terminal.line(fmt::format("address  {}", address));
  terminal.line(fmt::format("size     {} ({})", found.info.size, human_bytes(found.info.size)));
  terminal.line(fmt::format("type     {}", printable(found.info.media_type)));
  if (found.info.pinned) terminal.line(fmt::format("pinned   {}", *found.info.pinned ? "yes" : "no"));
  if (manifest == nullptr) return;
  std::uint64_t sum = 0;
  for (const format::ManifestEntry& entry : manifest->entries) sum += entry.size;
  terminal.line(fmt::format("kind     {}", format::name_of(manifest->kind)));
  terminal.line(fmt::format("entries  {} ({})", manifest->entries.size(), human_bytes(sum)));
  if (manifest->title) terminal.line(fmt::format("title    {}", printable(*manifest->title)));
  if (manifest->created) terminal.line(fmt::format("created  {}", format_rfc3339(*manifest->created)));
  if (manifest->previous) terminal.line(fmt::format("previous {}", format_address(*manifest->previous)));
}

// Only the list says whether an object is pinned. A caller who may not read the list still gets the rest.
Task<std::optional<bool>> find_pinned(Call call, Session* session, Address address) {
  const auto listed = co_await session->storage->list(call, {.prefix = format_address(address), .limit = 1});
  if (!listed || listed->objects.size() != 1 || listed->objects[0].address != address) co_return std::nullopt;
  co_return listed->objects[0].pinned;
}

Task<Exit> stat_one(Call call, Session* session, std::string name, Refusal* refusal) {
  auto found = co_await find_object(call, session, name);
  if (!found) co_return complain(refusal, found.error(), name);
  found->info.pinned = co_await find_pinned(call, session, found->info.address);
  if (!found->is_manifest()) {
    tell_facts(session->terminal, *found, nullptr);
    co_return Exit::ok;
  }
  auto manifest = co_await read_manifest(call, session, found->info.address);
  if (!manifest) co_return complain(refusal, manifest.error(), name);
  tell_facts(session->terminal, *found, &*manifest);
  co_return Exit::ok;
}

Task<Exit> stat_all(Call call, Session* session) { return for_each(call, session, stat_one); }

}  // namespace

int cat_verb(const Invocation& invocation) { return ask_about_objects(invocation, cat_all); }
int ls_verb(const Invocation& invocation) { return ask_about_objects(invocation, list_all); }
int stat_verb(const Invocation& invocation) { return ask_about_objects(invocation, stat_all); }

}  // namespace cairn::cli
