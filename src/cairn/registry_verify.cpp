// `cairn registry verify`: everything again, from the trust roots: over a server, a data directory or tiles.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "cairn/capability.h"
#include "cairn/genesis.h"
#include "cairn/local_files.h"
#include "cairn/registry_words.h"
#include "cairn/session.h"
#include "cairn/verbs.h"
#include "client/registry_audit.h"
#include "codec/json_writer.h"
#include "crypto/blake3.h"
#include "io/small_file.h"
#include "services/registry/verify_directory.h"

namespace cairn::cli {
namespace {

using client::AuditReport;
using client::Failure;
using client::Outcome;

constexpr std::size_t tile_max = 256 * (crypto::entry_size_max + 2);

// The inputs of every way of verifying.
struct Basis {
  format::TrustRoots roots;
  std::optional<crypto::Checkpoint> since;
};

Outcome<Basis> read_basis(const Invocation& invocation, const std::string& usual_roots) {
  Basis basis;
  const auto hinted = [](Failure failure, const char* hint) {
    failure.hint = hint;
    return fail(std::move(failure));
  };
  auto roots = read_trust_roots(std::string(invocation.get("trust-roots", usual_roots)));
  if (!roots) return hinted(std::move(roots.error()), "--trust-roots FILE says what to believe");
  basis.roots = std::move(*roots);
  if (const auto path = invocation.find("since")) {
    constexpr const char* hint =
        "--since takes a checkpoint of this log: one that cairn registry verify -o FILE has kept";
    const auto note = read_input(std::string(*path), crypto::note_size_max);
    if (!note) return hinted(note.error(), hint);
    auto checkpoint = client::open_checkpoint(*note, basis.roots);
    if (!checkpoint)
      return hinted(
          Failure(ErrorCode::integrity, fmt::format("{}: {}", printable(*path), checkpoint.error().context)),
          hint);
    basis.since = std::move(*checkpoint);
  }
  return basis;
}

Exit tell_wrong(const Terminal& terminal, const AuditReport& report) {
  const Exit exit = report.unproved ? Exit::unproved : Exit::integrity;
  if (!terminal.json() && report.unproved) {
    terminal.complain("unproved", report.why, {}, "verify over the server, or the data directory itself");
    return exit;
  }
  if (!terminal.json()) {
    terminal.complain("integrity", printable(report.why), {},
                      report.bad_version ? "keep what is there, and get this version from another copy"
                                         : "do not rely on it; compare with another copy");
    return exit;
  }
  // The version is printed in a field of its own.
  std::string_view why = report.why;
  if (report.bad_version) {
    const std::string prefix = fmt::format("version {}: ", *report.bad_version);
    if (why.starts_with(prefix)) why.remove_prefix(prefix.size());
  }
  std::string text;
  codec::JsonWriter json(text);
  json.begin_object().field("ok", false);
  if (report.bad_version) json.field("version", *report.bad_version);
  json.field("why", why).end_object().finish();
  terminal.line(text);
  return exit;
}

Exit tell(const Terminal& terminal, const Invocation& invocation, std::string_view source,
          const AuditReport& report) {
  if (!report.ok()) return tell_wrong(terminal, report);
  if (const auto to = invocation.find("output"))
    if (const auto written = write_whole(std::string(*to), report.checkpoint); !written)
      return complain(terminal, written.error());
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("ok", true).field("source", source).field("versions", report.versions);
    json.field("first", report.first).field("checkpoint_size", report.checkpoint_size);
    json.field("approvals_checked", report.approvals_checked).end_object().finish();
    terminal.line(text);
    return Exit::ok;
  }
  if (!terminal.quiet())
    terminal.line(fmt::format("ok  {} versions from {} on, checkpoint of {}, {}", report.versions,
                              report.first, report.checkpoint_size,
                              report.approvals_checked ? "every approval checked" : "approvals NOT checked"));
  if (const std::uint64_t end = report.first + report.versions; end > report.checkpoint_size)
    terminal.say(
        fmt::format("no checkpoint covers the versions from {} on yet: they are checked, but the log's "
                    "signed root will vouch for them only with the next one",
                    std::max(report.first, report.checkpoint_size)));
  if (report.first > 0)
    terminal.say(fmt::format("versions before {} are pruned: the signed root vouches for them, nothing else",
                             report.first));
  if (!report.approvals_checked)
    terminal.say(source == "tiles"
                     ? "tiles hold no payloads, so that nobody can tell from them who was a signer"
                     : "who could approve the first version that is left is not known any more");
  return Exit::ok;
}

// --- bare tiles
std::vector<std::string> list_tiles(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code problem;
  const std::filesystem::path root(directory);
  for (std::filesystem::recursive_directory_iterator at(root / "tile", problem), end; !problem && at != end;
       at.increment(problem))
    if (at->is_regular_file(problem)) paths.push_back(at->path().lexically_relative(root).generic_string());
  std::ranges::sort(paths);
  return paths;
}

int verify_tiles(const Invocation& invocation, const std::string& directory) {
  crypto::warm_up();
  const Terminal terminal(invocation);
  const auto basis = read_basis(invocation, directory + "/trust-roots.json");
  if (!basis) return complain_failure(invocation, basis.error());
  if (!io::mark_file(directory + "/checkpoint"))
    return complain_failure(invocation,
                            Failure(ErrorCode::not_found, fmt::format("{} has no checkpoint", directory)));
  const client::TileReader read = [&directory](const std::string& path) {
    return io::read_small_file(directory + "/" + path,
                               path == "checkpoint" ? crypto::note_size_max : tile_max);
  };
  const AuditReport report = client::audit_tiles(basis->roots, read, list_tiles(directory), basis->since);
  return code_of(tell(terminal, invocation, "tiles", report));
}

// --- a data directory
Task<Exit> verify_data(Call call, Session* session, const Basis* basis) {
  const auto found =
      co_await registry::verify_directory(call, session->machine, session->data + "/registry", basis->roots);
  if (!found) co_return complain(session->terminal, Failure(found.error()), session->data);
  AuditReport report;
  report.versions = found->versions - found->first;
  report.first = found->first;
  report.approvals_checked = found->approvals_checked;
  report.checkpoint_size = found->checkpoint_size;
  report.bad_version = found->bad_version;
  report.why = found->why;
  if (report.bad_version) {
    const std::string prefix = fmt::format("version {}: ", *report.bad_version);
    if (!report.why.starts_with(prefix)) report.why = prefix + report.why;
  }
  co_return tell(session->terminal, session->invocation, "data", report);
}

// --- a server
Task<Exit> verify_server(Call call, Session* session, const Basis* basis) {
  const Terminal& terminal = session->terminal;
  const auto moved = [&terminal](std::uint64_t done, std::uint64_t total) {
    if (terminal.shows_progress() && (done % 64 == 0 || done == total))
      terminal.message(
          fmt::format("\r\033[Kverify  {} of {}{}", done, total, done == total ? "\r\033[K" : ""));
  };
  const auto report =
      co_await client::audit_registry(call, session->registry, basis->roots, basis->since, moved);
  if (!report) co_return complain(terminal, report.error());
  co_return tell(terminal, session->invocation, "server", *report);
}

bool names_server(const Invocation& invocation) {
  const char* url = std::getenv("CAIRN_URL");
  return invocation.has("url") || (url != nullptr && *url != '\0');
}

}  // namespace

int registry_verify_verb(const Invocation& invocation) {
  if (const auto tiles = invocation.find("tiles")) {
    if (invocation.has("url") || invocation.has("data"))
      return complain_usage(invocation, "--tiles DIR is all there is to verify: no --url, no --data");
    return verify_tiles(invocation, std::string(*tiles));
  }
  const bool by_data = invocation.has("data") && !names_server(invocation);
  if (by_data && (invocation.has("since") || invocation.has("output")))
    return complain_usage(invocation, "--since and --output go with a server or --tiles",
                          "cairn registry verify --tiles DIR/registry --since FILE");
  const std::string data = data_directory(invocation);
  if (by_data && !io::mark_file(data + "/registry/segments"))
    return complain_failure(invocation,
                            Failure(ErrorCode::not_found, fmt::format("{} has no registry's log", data)),
                            "a registry has one from its first start on: cairn registry --data DIR");
  const auto basis = read_basis(invocation, trust_roots_path(data));
  if (!basis) return complain_failure(invocation, basis.error());
  const Basis* with = &*basis;
  if (by_data)
    return run_session(
        invocation, [with](Call call, Session* session) { return verify_data(call, session, with); },
        Server::none);
  return run_session(invocation,
                     [with](Call call, Session* session) { return verify_server(call, session, with); });
}

}  // namespace cairn::cli
