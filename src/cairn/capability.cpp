#include "cairn/capability.h"

#include "cairn/data_directory.h"

#include <array>
#include <cstdio>

#include "cairn/exit_code.h"
#include "cairn/session.h"
#include "cairn/terminal.h"
#include "io/entropy.h"
#include "io/process.h"

namespace cairn::cli {

std::string root_key_path(const Invocation& invocation) {
  return data_directory(invocation) + "/keys/capability-root.key";
}
std::string admin_token_path(const Invocation& invocation) {
  return admin_capability_path(data_directory(invocation));
}

crypto::Macaroon mint_plain(const crypto::RootKey& key) {
  std::array<std::uint64_t, 2> random;
  io::KernelEntropy().fill(std::as_writable_bytes(std::span(random)));
  return crypto::mint(key, "cairn", make_ulid(io::wall_clock(), random[0], random[1]));
}

crypto::RootKey new_root_key() {
  std::array<std::byte, 40> entropy;
  io::KernelEntropy().fill(entropy);
  crypto::RootKey key = crypto::make_root_key(entropy, io::wall_clock());
  crypto::wipe(entropy);
  return key;
}

std::string key_of(const crypto::Macaroon& macaroon) {
  const auto identifier = crypto::parse_identifier(macaroon.identifier);
  return identifier ? std::string(identifier->key_id) : std::string();
}

std::string read_word(const std::string& word) {
  if (word != "-") return word;
  std::string text(64 << 10, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stdin));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

int complain_failure(const Invocation& invocation, const client::Failure& failure, std::string_view hint) {
  const Terminal terminal(invocation);
  if (hint.empty())
    terminal.complain(failure);
  else
    terminal.complain(name_of(failure.code()), failure.message, failure.asked, hint);
  return code_of(exit_of(failure));
}

}  // namespace cairn::cli
