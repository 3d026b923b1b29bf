// `cairn key`: keys that sign, in the data directory.
#include <fmt/format.h>

#include "cairn/capability.h"
#include "cairn/exit_code.h"
#include "cairn/key_file.h"
#include "cairn/session.h"
#include "cairn/terminal.h"
#include "cairn/tls_file.h"
#include "cairn/verbs.h"
#include "codec/base64.h"
#include "codec/json_writer.h"

namespace cairn::cli {
namespace {

void print_key(const Terminal& terminal, const std::string& data, const PublicKey& key) {
  const std::string text = codec::encode_base64(key.key);
  const std::string path = key.has_private ? key_path(data, key.name) : public_key_path(data, key.name);
  if (terminal.json()) {
    std::string line;
    codec::JsonWriter json(line);
    json.begin_object().field("name", key.name).field("algo", "ed25519").field("key", text);
    json.field("path", path).field("private", key.has_private).end_object().finish();
    terminal.line(line);
  } else if (terminal.quiet()) {
    terminal.line(text);
  } else {
    terminal.line(fmt::format("{:<16} {}  {}", key.name, text, path));
  }
}

// The server's own keys may be shown, not made.
bool is_shown_name(std::string_view name) { return is_key_name(name) || name == log_key_name; }

}  // namespace

int key_new_verb(const Invocation& invocation) {
  const std::string data = data_directory(invocation), &name = invocation.arguments[0];
  if (!is_key_name(name))
    return complain_usage(invocation, fmt::format("`{}` cannot name a key", printable(name)),
                          "at most 64 of A-Z a-z 0-9 . _ @ -, and none of the server's own");
  const auto key = make_key(data, name);
  if (!key) return complain_failure(invocation, key.error(), "cairn key show shows it");
  print_key(Terminal(invocation), data, {name, key->public_key(), true});
  return code_of(Exit::ok);
}

int key_ls_verb(const Invocation& invocation) {
  const std::string data = data_directory(invocation);
  const auto keys = list_keys(data);
  if (!keys) return complain_failure(invocation, keys.error(), "--data DIR names the data directory");
  const Terminal terminal(invocation);
  for (const PublicKey& key : *keys) print_key(terminal, data, key);
  return code_of(Exit::ok);
}

int key_show_verb(const Invocation& invocation) {
  const std::string data = data_directory(invocation), &name = invocation.arguments[0];
  if (!is_shown_name(name))
    return complain_usage(invocation, fmt::format("`{}` is not the name of a key", printable(name)),
                          "cairn key ls");
  const auto key = find_public_key(data, name);
  if (!key)
    return complain_failure(invocation, key.error(),
                            "cairn key ls lists them; --data DIR names the directory");
  print_key(Terminal(invocation), data, *key);
  return code_of(Exit::ok);
}

int key_tls_verb(const Invocation& invocation) {
  const std::string data = data_directory(invocation);
  const auto made = make_tls_files(data, invocation.arguments);
  if (!made) return complain_failure(invocation, made.error(), "NAME is a host name or an address");
  const Terminal terminal(invocation);
  if (terminal.json()) {
    std::string line;
    codec::JsonWriter json(line);
    json.begin_object().field("certificate", made->certificate).field("key", made->key);
    json.field("authority", made->authority).end_object().finish();
    terminal.line(line);
  } else if (terminal.quiet()) {
    terminal.line(made->certificate);
  } else {
    terminal.line(fmt::format("certificate {}\nkey         {}\nauthority   {}", made->certificate, made->key,
                              made->authority));
    terminal.say(
        fmt::format("serve: --set tls.enabled=true --set tls.cert={} --set tls.key={}\n"
                    "trust: curl --cacert {}; cairn --ca {}; browsers: import it as an authority",
                    made->certificate, made->key, made->authority, made->authority));
  }
  return code_of(Exit::ok);
}

}  // namespace cairn::cli
