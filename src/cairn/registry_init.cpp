// `cairn registry init`: the first version, made where the registry will run.
#include <fmt/format.h>

#include <charconv>

#include "cairn/exit_code.h"
#include "cairn/genesis.h"
#include "cairn/key_file.h"
#include "cairn/session.h"
#include "cairn/terminal.h"
#include "cairn/verbs.h"
#include "codec/base64.h"
#include "codec/json_writer.h"
#include "crypto/blake3.h"

namespace cairn::cli {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> names;
  for (;;) {
    const std::size_t comma = text.find(',');
    names.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return names;
    text.remove_prefix(comma + 1);
  }
}

void tell(const Terminal& terminal, const std::string& data, unsigned m, const Made& made) {
  const std::string genesis = format_address(made.loaded.roots.genesis_payload_b3);
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("genesis_payload_b3", genesis);
    json.field("genesis_commit_b3", format_address(made.loaded.roots.genesis_commit_b3)).field("m", m);
    json.key("signers").begin_array();
    for (const MadeSigner& one : made.signers)
      json.begin_object()
          .field("id", one.id)
          .field("key", codec::encode_base64(one.key))
          .field("path", one.path)
          .field("made", one.made)
          .end_object();
    json.end_array().field("log_key", made.loaded.roots.log_key);
    json.field("trust_roots", trust_roots_path(data)).end_object().finish();
    terminal.line(text);
    return;
  }
  if (terminal.quiet()) {
    terminal.line(genesis);
    return;
  }
  terminal.line(fmt::format("{:<12} {}", "genesis", genesis));
  for (const MadeSigner& one : made.signers)
    terminal.line(
        fmt::format("{:<12} {}  {}{}", "signer", one.id, one.path, one.made ? "" : "  (was there)"));
  terminal.line(fmt::format("{:<12} {}", "log key", key_path(data, log_key_name)));
  terminal.line(fmt::format("{:<12} {}", "trust roots", trust_roots_path(data)));
  terminal.say(fmt::format("{} of {} must approve a change; give the trust roots to whoever verifies", m,
                           made.signers.size()));
  terminal.say(fmt::format("next: cairn registry --data {}", data));
}

}  // namespace

int registry_init_verb(const Invocation& invocation) {
  crypto::warm_up();
  const Terminal terminal(invocation);
  const std::string data = data_directory(invocation);
  const std::string_view number = invocation.get("m", "1");
  unsigned m = 0;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), m);
  std::vector<std::string> signers = split(invocation.get("signers", "operator"));
  if (problem != std::errc() || end != number.data() + number.size() || m < 1 || m > signers.size())
    return complain_usage(invocation,
                          fmt::format("--m must be 1 to {}, the number of signers", signers.size()));
  for (const std::string& name : signers)
    if (!is_key_name(name))
      return complain_usage(invocation, fmt::format("`{}` cannot be a signer's name", printable(name)),
                            "at most 64 of A-Z a-z 0-9 . _ @ -, separated by commas");
  if (has_registry(data)) {
    terminal.complain("conflict", fmt::format("{} has a registry already", data), {},
                      "signers change by a commit: cairn registry propose --add SIGNER_SET.json");
    return code_of(Exit::conflict);
  }
  const auto made = make_registry(data, m, std::move(signers));
  if (!made) {
    terminal.complain("failed", made.error(), {}, {});
    return code_of(Exit::failed);
  }
  tell(terminal, data, m, *made);
  return code_of(Exit::ok);
}

}  // namespace cairn::cli
