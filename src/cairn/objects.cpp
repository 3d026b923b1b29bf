#include "cairn/objects.h"

#include <fmt/format.h>

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

int ask_about_objects(const Invocation& invocation, Work work) {
  const bool paths = invocation.command->arguments.front().name.ends_with("[/PATH]");
  for (const std::string& name : invocation.arguments)
    if (!client::parse_reference(name))
      return complain_usage(invocation, fmt::format("`{}` is not an address", printable(name)),
                            fmt::format("`b3:` and 64 hex digits, or at least 6 of them{}",
                                        paths ? "; behind it /PATH, in a directory" : ""));
  return run_session(invocation, work, Server::of_objects);
}

Task<Outcome<Found>> find_object(Call call, Session* session, std::string name) {
  const auto reference = client::parse_reference(name);
  if (!reference) co_return fail(Failure(ErrorCode::invalid, "not an address"));
  CO_TRY(Address address, co_await client::resolve(call, session->storage, *reference));
  Found found;
  if (!reference->path.empty()) {
    CO_TRY(const format::Manifest manifest, co_await read_manifest(call, session, address));
    const format::ManifestEntry* entry = manifest.find(reference->path);
    if (entry == nullptr)
      co_return fail(Failure(ErrorCode::not_found, fmt::format("the manifest has no `{}`", reference->path)));
    found.path = entry->path;
    found.size = entry->size;
    address = entry->address;
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
