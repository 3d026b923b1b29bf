// `cairn cap revoke`: every capability under a root key is void from now on.
#include <fmt/format.h>

#include "cairn/capability.h"
#include "cairn/data_directory.h"
#include "cairn/local_daemon.h"
#include "cairn/services.h"
#include "cairn/session.h"
#include "cairn/verbs.h"
#include "codec/json_writer.h"
#include "serve/root_keys.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;

// A daemon that does not answer in this time learns of the revocation from the file.
constexpr Duration daemon_patience = Duration::seconds(5);

// The state after a revocation, as far as it is known here.
struct Revoked {
  std::string key_id;
  std::string mints = {};  // the key of new tokens
  std::string made = {};   // the same key, if it was made just now
};

Revoked read_revoked(std::string key_id, const crypto::KeyRing& ring) {
  const crypto::RootKey* key = ring.find_minting();
  return {.key_id = std::move(key_id), .mints = key != nullptr ? key->id : std::string()};
}

struct InFile {
  Revoked revoked;
  serve::KeySnapshotPtr left;
};

Outcome<InFile> revoke_in_file(const Invocation& invocation, const std::string& key_id) {
  const std::string path = root_key_path(invocation);
  auto keys = serve::RootKeys::open(path);
  if (!keys) return fail(Failure(keys.error().code, fmt::format("{}: {}", path, keys.error().context)));
  crypto::RootKey instead = new_root_key();
  const std::string fresh = instead.id;
  const auto left = (*keys)->revoke(key_id, std::move(instead));
  if (!left && left.error().code == ErrorCode::not_found)
    return fail(Failure(ErrorCode::not_found, fmt::format("no key {} in {}", key_id, path)));
  if (!left) return fail(Failure(left.error().code, fmt::format("{}: {}", path, left.error().context)));
  if (!renew_admin_capability(data_directory(invocation), (*left)->ring))
    return fail(Failure(ErrorCode::io_failed,
                        fmt::format("{} is void and could not be replaced", admin_token_path(invocation))));
  InFile done{read_revoked(key_id, (*left)->ring), *left};
  if ((*left)->ring.find(fresh) != nullptr) done.revoked.made = fresh;
  return done;
}

Outcome<std::string> key_to_revoke(const std::string& word) {
  const std::string text = read_word(word);
  if (crypto::is_key_id(text)) return text;
  const auto macaroon = crypto::parse_token(text);
  if (!macaroon || key_of(*macaroon).empty())
    return fail(Failure(ErrorCode::invalid, "neither a key id (16 hex digits) nor a capability"));
  return key_of(*macaroon);
}

void tell_revoked(const Terminal& terminal, const Revoked& revoked) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("revoked", revoked.key_id);
    if (!revoked.made.empty()) json.field("new_key", revoked.made);
    if (!revoked.mints.empty()) json.field("minting_key", revoked.mints);
    json.end_object().finish();
    terminal.line(text);
  } else if (!terminal.quiet()) {
    terminal.line(fmt::format("revoked {}{}", revoked.key_id,
                              revoked.mints.empty() ? "" : "; new tokens are minted under " + revoked.mints));
  }
}

// Waits until the daemon refuses the key: the daemon reads the file, and answers when every shard refuses the
// key. Until then the revoked key itself gives the right to ask, afterwards the key that mints.
Task<Outcome<>> tell_daemon(Call call, io::Machine* machine, Endpoint endpoint, std::string key_id,
                            serve::KeySnapshotPtr left) {
  Outcome<> told;
  for (const crypto::RootKey* key : {left->ring.find(key_id), left->ring.find_minting()}) {
    if (key == nullptr) continue;
    client::Transport transport(*machine,
                                {.endpoint = endpoint, .token = crypto::format_token(mint_plain(*key))});
    {
      client::StorageClient daemon(transport);
      auto there = co_await daemon.version(call.within(daemon_patience));
      told = there ? co_await daemon.revoke_key(call.within(daemon_patience), key_id)
                   : Outcome<>(fail(std::move(there.error())));
    }
    co_await transport.close(call.unbounded());
    if (told || told.error().code() != ErrorCode::unauthorized) break;
  }
  co_return told;
}

Task<Exit> tell_daemons(Call call, Session* session, const InFile* done) {
  for (const ServiceEntry& service : services())
    for (const Endpoint& endpoint : find_daemon(session->data, service.name)) {
      const auto told =
          co_await tell_daemon(call, &session->machine, endpoint, done->revoked.key_id, done->left);
      if (call.stopped()) co_return Exit::interrupted;
      if (told) break;
      // A stale socket: no daemon listens there.
      if (told.error().code() == ErrorCode::connection_lost) continue;
      session->terminal.warn(
          fmt::format("{} at {} has not said that it knows ({}); it looks at the keys once a second",
                      service.name, format_url(endpoint), told.error().message));
      break;
    }
  tell_revoked(session->terminal, done->revoked);
  co_return Exit::ok;
}

Task<Exit> revoke_by_server(Call call, Session* session) {
  const auto key_id = key_to_revoke(session->invocation.arguments[0]);
  if (!key_id) {
    session->terminal.complain(key_id.error());
    co_return exit_of(key_id.error());
  }
  const auto revoked = co_await session->storage->revoke_key(call, *key_id);
  if (!revoked) {
    session->terminal.complain(revoked.error());
    co_return exit_of(revoked.error());
  }
  // This machine cannot know which key mints on another one.
  Revoked now{.key_id = *key_id};
  const auto endpoint = parse_url(session->where);
  if (endpoint && is_daemon(session->data, *endpoint))
    if (const auto keys = serve::RootKeys::open(root_key_path(session->invocation)))
      now = read_revoked(*key_id, (*keys)->current()->ring);
  tell_revoked(session->terminal, now);
  co_return Exit::ok;
}

}  // namespace

int cap_revoke_verb(const Invocation& invocation) {
  if (invocation.has("url")) return run_session(invocation, revoke_by_server);
  const auto key_id = key_to_revoke(invocation.arguments[0]);
  if (!key_id) return complain_usage(invocation, key_id.error().message);
  const auto done = revoke_in_file(invocation, *key_id);
  if (!done) return complain_failure(invocation, done.error());
  const InFile* in_file = &*done;
  return run_session(
      invocation, [in_file](Call call, Session* session) { return tell_daemons(call, session, in_file); },
      Server::none);
}

}  // namespace cairn::cli
