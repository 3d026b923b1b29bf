#include "cairn/objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "cairn/local_files.h"
#include "cairn/verbs.h"
#include "client/download.h"
#include "client/reference.h"

namespace cairn::cli {

using client::Failure;
using client::Outcome;

Task<Outcome<format::Manifest>> read_manifest(Call call, Session* session, Address address) {
  client::TextDestination text(format::manifest_size_max);
  client::DownloadOptions options;
  options.size_max = format::manifest_size_max;
  CO_TRY_VOID(co_await client::download(call, session->storage, address, &text, std::move(options)));
  auto manifest = format::decode_manifest(as_bytes(text.text()));
  if (!manifest)
    co_return fail(
        Failure(ErrorCode::malformed,
                fmt::format("{} is not a manifest: {}", format_address(address), manifest.error().context)));
  co_return std::move(*manifest);
}

namespace {

constexpr std::string_view name_word = "name:";

// Whether an argument may be a name, with or without a path behind it.
bool is_named(std::string_view word) {
  if (word.starts_with(name_word)) word.remove_prefix(name_word.size());
  // The rest may be a path, but with anything else before the first slash there is no name.
  return format::is_name(word.substr(0, word.find('/')));
}

// Somebody may have forgotten to put a file that is here.
Failure no_such_name(Failure failure, const std::string& word) {
  if (failure.code() != ErrorCode::not_found || look_at(word, true).kind != FileKind::file) return failure;
  failure.message += fmt::format("; `{0}` is a file here: cairn put {0} stores it", printable(word));
  return failure;
}

// One level of a path inside a directory: the entry that the path is, or the directory on the way to it.
const format::ManifestEntry* find_step(const format::Manifest& manifest, std::string_view path) {
  for (std::size_t end = path.size();; end = path.rfind('/', end - 1)) {
    if (end == path.npos) return nullptr;
    const format::ManifestEntry* entry = manifest.find(path.substr(0, end));
    if (entry != nullptr && (end == path.size() || entry->media_type == format::manifest_media_type))
      return entry;
    if (end == 0) return nullptr;
  }
}

}  // namespace

int ask_about_objects(const Invocation& invocation, Work work) {
  const std::string_view form = invocation.command->arguments.front().name;
  const bool paths = form.ends_with("[/PATH]"), names = form.find("NAME") != form.npos;
  for (const std::string& word : invocation.arguments) {
    if (client::parse_reference(word) || (names && is_named(word))) continue;
    return complain_usage(
        invocation, fmt::format("`{}` is not an address", printable(word)),
        fmt::format("`b3:` and 64 hex digits, or at least 6 of them{}{}", names ? "; or a name" : "",
                    paths ? "; behind it /PATH, in a directory" : ""));
  }
  return run_session(invocation, work, Server::of_objects);
}

Task<Outcome<Found>> find_object(Call call, Session* session, std::string name) {
  Found found;
  Address address;
  std::string path;
  if (const auto reference = client::parse_reference(name)) {
    CO_TRY(address, co_await client::resolve(call, session->storage, *reference));
    path = reference->path;
  } else {
    CO_TRY(client::IndexClient * index, co_await session->index->connect(call));
    auto named = co_await client::resolve_name(call.within(resolve_patience), index, name);
    if (!named) co_return fail(no_such_name(std::move(named.error()), name));
    address = named->resolved.manifest;
    path = std::move(named->path);
    found.name = std::move(named->name);
  }
  while (!path.empty()) {
    CO_TRY(const format::Manifest manifest, co_await read_manifest(call, session, address));
    if (manifest.kind != format::ManifestKind::directory && manifest.kind != format::ManifestKind::site)
      co_return fail(
          Failure(ErrorCode::not_found, fmt::format("{} is a {}, and has no `{}`", format_address(address),
                                                    format::name_of(manifest.kind), path)));
    const format::ManifestEntry* entry = find_step(manifest, path);
    if (entry == nullptr)
      co_return fail(Failure(ErrorCode::not_found, fmt::format("the manifest has no `{}`", path)));
    found.path += (found.path.empty() ? "" : "/") + entry->path;
    found.size = entry->size;
    address = entry->address;
    path.erase(0, std::min(entry->path.size() + 1, path.size()));
  }
  CO_TRY(found.info, co_await session->storage->head(call, address));
  co_return found;
}

Task<Exit> write_to_stdout(Call call, Session* session, Found found, bool raw) {
  const Terminal& terminal = session->terminal;
  const std::string name = format_address(found.info.address);
  if (found.is_manifest() && !raw) {
    terminal.complain("invalid", fmt::format("{} is a directory", name), {},
                      fmt::format("cairn ls {}; cairn get {} -o DIR; or its own bytes: --raw", name, name));
    co_return Exit::failed;
  }
  DescriptorDestination to(session->machine.pool, 1);
  client::DownloadOptions options;
  options.claimed_size = found.info.size;
  const auto done =
      co_await client::download(call, session->storage, found.info.address, &to, std::move(options));
  if (done) co_return Exit::ok;
  if (done.error().code() == ErrorCode::cancelled) co_return Exit::interrupted;
  if (done.error().code() == ErrorCode::closed) co_return Exit::ok;  // the reader has all that it wanted
  terminal.complain(done.error(), name);
  co_return exit_of(done.error());
}

}  // namespace cairn::cli
