// `cairn cap revoke`: every capability under a root key is void from now on.
#include <fmt/format.h>

#include "cairn/capability.h"
#include "cairn/session.h"
#include "cairn/verbs.h"
#include "codec/json_writer.h"
#include "io/small_file.h"
#include "serve/root_keys.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;

// Where the admin's own capability was minted under the key, it gets another: who can write this directory
// could mint it anyway.
Outcome<> renew_admin(const Invocation& invocation, const std::string& key_id, const crypto::KeyRing& ring) {
  const std::string path = admin_token_path(invocation);
  const auto old = crypto::parse_token(read_token_file(path));
  const crypto::RootKey* key = ring.find_minting();
  if (!old || key_of(*old) != key_id || key == nullptr) return {};
  if (!io::replace_file(path, crypto::format_token(mint_plain(*key)) + "\n"))
    return fail(Failure(ErrorCode::io_failed, fmt::format("{} is void and could not be replaced", path)));
  return {};
}

// The id of the key that mints from now on, where a new one was made.
Outcome<std::string> revoke_in_file(const Invocation& invocation, const std::string& key_id) {
  const std::string path = root_key_path(invocation);
  auto keys = serve::RootKeys::open(path);
  if (!keys) return fail(Failure(keys.error().code, fmt::format("{}: {}", path, keys.error().context)));
  crypto::RootKey instead = new_root_key();
  const std::string fresh = instead.id;
  const auto left = (*keys)->revoke(key_id, std::move(instead));
  if (!left && left.error().code == ErrorCode::not_found)
    return fail(Failure(ErrorCode::not_found, fmt::format("no key {} in {}", key_id, path)));
  if (!left) return fail(Failure(left.error().code, fmt::format("{}: {}", path, left.error().context)));
  TRY_VOID(renew_admin(invocation, key_id, (*left)->ring));
  return (*left)->ring.find(fresh) != nullptr ? fresh : std::string();
}

Outcome<std::string> key_to_revoke(const std::string& word) {
  const std::string text = read_word(word);
  if (crypto::is_key_id(text)) return text;
  const auto macaroon = crypto::parse_token(text);
  if (!macaroon || key_of(*macaroon).empty())
    return fail(Failure(ErrorCode::invalid, "neither a key id (16 hex digits) nor a capability"));
  return key_of(*macaroon);
}

void tell_revoked(const Terminal& terminal, const std::string& key_id, const std::string& made) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("revoked", key_id);
    if (!made.empty()) json.field("new_key", made);
    json.end_object().finish();
    terminal.line(text);
  } else if (!terminal.quiet()) {
    terminal.line(
        fmt::format("revoked {}{}", key_id, made.empty() ? "" : "; new tokens are minted under " + made));
  }
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
  tell_revoked(session->terminal, *key_id, {});
  co_return Exit::ok;
}

}  // namespace

int cap_revoke_verb(const Invocation& invocation) {
  if (invocation.has("url")) return run_session(invocation, revoke_by_server);
  const auto key_id = key_to_revoke(invocation.arguments[0]);
  if (!key_id) return complain_usage(invocation, key_id.error().message);
  const auto made = revoke_in_file(invocation, *key_id);
  if (!made) return complain_failure(invocation, made.error());
  tell_revoked(Terminal(invocation), *key_id, *made);
  return code_of(Exit::ok);
}

}  // namespace cairn::cli
