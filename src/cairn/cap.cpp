// `cairn cap mint`, `attenuate` and `inspect`: capabilities are made, narrowed and read, without a server.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "cairn/capability.h"
#include "cairn/exit_code.h"
#include "cairn/terminal.h"
#include "cairn/verbs.h"
#include "codec/json_writer.h"
#include "crypto/key_ring.h"
#include "io/process.h"

namespace cairn::cli {
namespace {

using client::Failure;
using client::Outcome;

constexpr std::size_t key_file_max = 1 << 20;

Outcome<crypto::KeyRing> read_ring(const std::string& path) {
  auto text = io::read_small_file(path, key_file_max);
  if (!text) return fail(Failure(text.error().code, fmt::format("{} {}", path, text.error().context)));
  auto ring = crypto::KeyRing::parse(*text);
  crypto::wipe(*text);
  if (!ring) return fail(Failure(ErrorCode::invalid, fmt::format("{}: {}", path, ring.error().context)));
  return std::move(*ring);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) words.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return words;
}

Outcome<std::string> expiry_caveat(std::string_view text) {
  const auto now = io::wall_clock();
  if (const auto span = parse_duration(text)) return crypto::expires_caveat({now.ms + span->to_millis()});
  if (const auto time = parse_rfc3339(text)) {
    if (*time > now) return crypto::expires_caveat(*time);
    Failure over(ErrorCode::invalid, fmt::format("--expires {}: this time is over", text));
    over.hint = "such a capability would allow nothing; a span begins now: --expires 1h";
    return fail(std::move(over));
  }
  return fail(Failure(ErrorCode::invalid,
                      fmt::format("--expires {}: neither a span (1h) nor a time in RFC 3339", text)));
}

// The conditions that the flags ask for, in a fixed order.
Outcome<std::vector<std::string>> caveats_of(const Invocation& invocation) {
  std::vector<std::string> caveats;
  const auto joined = [&](std::string_view flag) {
    std::string all;
    for (const std::string& one : invocation.all(flag)) all += (all.empty() ? "" : ",") + one;
    return all;
  };
  if (const std::string operations = joined("op"); !operations.empty())
    caveats.push_back(crypto::op_caveat(split(operations)));
  if (const std::string all = joined("svc"); !all.empty()) caveats.push_back(crypto::svc_caveat(split(all)));
  if (const auto tenant = invocation.find("tenant")) caveats.push_back(crypto::tenant_caveat(*tenant));
  if (const auto text = invocation.find("addr")) {
    const auto address = parse_address(*text);
    if (!address) return fail(Failure(ErrorCode::invalid, "--addr is not an address"));
    caveats.push_back(crypto::addr_caveat(*address));
  }
  if (const auto prefix = invocation.find("name")) caveats.push_back(crypto::name_caveat(*prefix));
  if (const auto text = invocation.find("max-bytes")) {
    auto bytes = parse_bytes(*text);
    std::uint64_t plain = 0;
    const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), plain);
    if (!bytes && problem == std::errc() && end == text->data() + text->size()) bytes = Bytes{plain};
    if (!bytes) return fail(Failure(ErrorCode::invalid, "--max-bytes is not a size"));
    caveats.push_back(crypto::max_bytes_caveat(bytes->count));
  }
  if (const auto network = invocation.find("ip")) caveats.push_back(crypto::ip_caveat(*network));
  if (const auto text = invocation.find("expires")) {
    TRY(std::string caveat, expiry_caveat(*text));
    caveats.push_back(std::move(caveat));
  }
  for (const std::string& caveat : caveats)
    if (const auto right = crypto::validate_caveat(caveat); !right) {
      Failure wrong(ErrorCode::invalid, fmt::format("`{}`: {}", printable(caveat), right.error().context));
      if (caveat.starts_with("op = "))
        wrong.hint = fmt::format("there are: {}", fmt::join(crypto::known_operations(), ", "));
      if (caveat.starts_with("svc = "))
        wrong.hint = fmt::format("there are: {}", fmt::join(crypto::known_services(), ", "));
      return fail(std::move(wrong));
    }
  return caveats;
}

Outcome<crypto::Macaroon> narrow(crypto::Macaroon macaroon, const std::vector<std::string>& caveats) {
  for (const std::string& caveat : caveats) {
    TRY(macaroon, crypto::attenuate(std::move(macaroon), caveat));
  }
  return macaroon;
}

void print_token(const Invocation& invocation, const crypto::Macaroon& macaroon) {
  const Terminal terminal(invocation);
  if (!terminal.json()) {
    terminal.line(crypto::format_token(macaroon));
    return;
  }
  std::string text;
  codec::JsonWriter json(text);
  json.begin_object().field("token", crypto::format_token(macaroon)).field("key_id", key_of(macaroon));
  json.key("caveats").begin_array();
  for (const crypto::Caveat& caveat : macaroon.caveats) json.value(caveat.text);
  json.end_array().end_object().finish();
  terminal.line(text);
}

Outcome<crypto::Macaroon> read_token(const std::string& word) {
  auto macaroon = crypto::parse_token(read_word(word));
  if (!macaroon) return fail(Failure(ErrorCode::malformed, "this is not a capability"));
  return std::move(*macaroon);
}

// A caveat in words for people. Unknown caveats are shown as they are.
std::string in_words(const crypto::Caveat& caveat) {
  if (caveat.third_party()) return fmt::format("asks a third party at {}", caveat.location);
  const std::string_view text = caveat.text;
  const auto rest = [&](std::string_view beginning) -> std::optional<std::string_view> {
    if (!text.starts_with(beginning)) return std::nullopt;
    return text.substr(beginning.size());
  };
  if (!crypto::validate_caveat(text))
    return fmt::format("not understood here, so no server may accept it: {}", text);
  if (auto is = rest("op = ")) return fmt::format("only the operations {}", *is);
  if (auto is = rest("svc = ")) return fmt::format("only of the services {}", *is);
  if (auto is = rest("tenant = ")) return fmt::format("only for the tenant {}", *is);
  if (auto is = rest("addr = ")) return fmt::format("only about {}", *is);
  if (auto is = rest("name ^ ")) return fmt::format("only names that begin with {}", *is);
  if (auto is = rest("max_bytes <= ")) return fmt::format("at most {} bytes a request", *is);
  if (auto is = rest("ip = ")) return fmt::format("only from {}", *is);
  if (auto is = rest("expires < ")) {
    const auto time = parse_rfc3339(*is);
    return fmt::format("until {}{}", *is, time && *time <= io::wall_clock() ? " (over)" : "");
  }
  return std::string(text);
}

}  // namespace

int cap_mint_verb(const Invocation& invocation) {
  if (!invocation.has("op"))
    return complain_usage(invocation, "--op says what the capability allows",
                          "cairn cap mint --op storage.put,storage.get; --help lists the operations");
  auto caveats = caveats_of(invocation);
  if (!caveats) return complain_usage(invocation, caveats.error().message, caveats.error().hint);
  const auto ring = read_ring(root_key_path(invocation));
  if (!ring)
    return complain_failure(invocation, ring.error(),
                            "--data DIR names the server's data directory; its first start makes the key");
  const crypto::RootKey* key = ring->find_minting();
  if (key == nullptr)
    return complain_failure(invocation, Failure(ErrorCode::revoked_key, "every root key is revoked"),
                            "cairn cap revoke makes a new one with the last");
  const auto macaroon = narrow(mint_plain(*key), *caveats);
  if (!macaroon) return complain_failure(invocation, macaroon.error());
  print_token(invocation, *macaroon);
  return code_of(Exit::ok);
}

int cap_attenuate_verb(const Invocation& invocation) {
  auto caveats = caveats_of(invocation);
  if (!caveats) return complain_usage(invocation, caveats.error().message, caveats.error().hint);
  if (caveats->empty()) return complain_usage(invocation, "say what to narrow: --op, --tenant, --expires …");
  auto macaroon = read_token(invocation.arguments[0]);
  if (!macaroon) return complain_failure(invocation, macaroon.error());
  const auto narrower = narrow(std::move(*macaroon), *caveats);
  if (!narrower) return complain_failure(invocation, narrower.error());
  print_token(invocation, *narrower);
  return code_of(Exit::ok);
}

int cap_inspect_verb(const Invocation& invocation) {
  const auto macaroon = read_token(invocation.arguments[0]);
  if (!macaroon) return complain_failure(invocation, macaroon.error());
  const Terminal terminal(invocation);
  const auto identifier = crypto::parse_identifier(macaroon->identifier);
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object().field("location", macaroon->location).field("identifier", macaroon->identifier);
    if (identifier) json.field("key_id", identifier->key_id);
    json.key("caveats").begin_array();
    for (const crypto::Caveat& caveat : macaroon->caveats)
      json.begin_object().field("caveat", caveat.text).field("means", in_words(caveat)).end_object();
    json.end_array().end_object().finish();
    terminal.line(text);
    return code_of(Exit::ok);
  }
  terminal.line(fmt::format("for      {}", printable(macaroon->location)));
  terminal.line(fmt::format("key      {}",
                            identifier ? printable(identifier->key_id) : "(not one of cairn's identifiers)"));
  if (macaroon->caveats.empty()) terminal.line("allows   everything");
  for (std::size_t i = 0; i < macaroon->caveats.size(); ++i)
    terminal.line(
        fmt::format("{}{}", i == 0 ? "allows   " : "         ", printable(in_words(macaroon->caveats[i]))));
  terminal.say("Whether it is genuine only the server that minted it can tell.");
  return code_of(Exit::ok);
}

}  // namespace cairn::cli
