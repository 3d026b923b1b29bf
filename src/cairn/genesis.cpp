#include "cairn/genesis.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "cairn/key_file.h"
#include "crypto/blake3.h"
#include "crypto/signed_note.h"
#include "io/process.h"

namespace cairn::cli {
namespace {

constexpr std::size_t genesis_max = 4 << 20, roots_max = 64 << 10;

std::string genesis_path(const std::string& data) { return data + "/registry/genesis.cbor"; }

// In the data directory, not in the registry's own: the marker tells a lost registry from one that never was.
std::string marker_path(const std::string& data) { return data + "/registry.genesis"; }

std::expected<void, std::string> write_marker(const std::string& data, const format::TrustRoots& roots) {
  const std::string path = marker_path(data);
  if (const auto written = io::replace_file(path, format_address(roots.genesis_payload_b3) + "\n"); !written)
    return std::unexpected(fmt::format("{} {}", path, written.error().context));
  return {};
}

// A registry that was made before there were markers gets its own.
std::expected<void, std::string> check_marker(const std::string& data, const format::TrustRoots& roots) {
  const std::string path = marker_path(data);
  const auto text = io::read_small_file(path, 1024);
  if (!text && text.error().code == ErrorCode::not_found) return write_marker(data, roots);
  if (!text) return std::unexpected(fmt::format("{} {}", path, text.error().context));
  if (*text == format_address(roots.genesis_payload_b3) + "\n") return {};
  return std::unexpected(fmt::format(
      "{}/registry is not the registry that was made here: {} names another genesis; put the right "
      "one back, or remove that file to keep this one",
      data, path));
}

format::TrustRoots roots_of(const format::Genesis& genesis, const crypto::Ed25519Key& log_key) {
  format::TrustRoots roots;
  roots.genesis_payload_b3 = crypto::hash_object(as_bytes(genesis.payload));
  roots.genesis_commit_b3 = format::commit_b3(as_bytes(genesis.commit));
  roots.log_key =
      crypto::format_verifier_key({format_address(roots.genesis_payload_b3), log_key.public_key()});
  return roots;
}

std::string signers_problem(unsigned m, const std::vector<std::string>& signers) {
  if (signers.empty()) return "there must be a signer";
  if (signers.size() > format::signers_max) return fmt::format("at most {} signers", format::signers_max);
  for (std::size_t i = 0; i < signers.size(); ++i) {
    if (!is_key_name(signers[i]))
      return fmt::format("`{}` cannot be a signer's name: at most 64 of A-Z a-z 0-9 . _ @ -", signers[i]);
    if (std::ranges::count(signers, signers[i]) > 1) return fmt::format("{} is there twice", signers[i]);
  }
  if (m < 1 || m > signers.size())
    return fmt::format("{} of {} signers can never approve: m must be 1 to {}", m, signers.size(),
                       signers.size());
  return {};
}

std::expected<void, std::string> write_files(const std::string& data, const LoadedGenesis& made) {
  if (auto there = make_private_directory(data + "/registry"); !there)
    return std::unexpected(there.error().message);
  const std::pair<std::string, std::string> files[] = {
      {trust_roots_path(data), format::format_trust_roots(made.roots)},
      {genesis_path(data), format::encode_genesis(made.genesis)}};
  for (const auto& [path, text] : files)
    if (const auto written = io::replace_file(path, text); !written)
      return std::unexpected(fmt::format("{} {}", path, written.error().context));
  return {};
}

}  // namespace

bool has_registry(const std::string& data) { return io::mark_file(genesis_path(data)).has_value(); }

bool lost_registry(const std::string& data) {
  return !has_registry(data) && io::mark_file(marker_path(data)).has_value();
}

std::string trust_roots_path(const std::string& data) { return data + "/registry/trust-roots.json"; }

std::expected<Made, std::string> make_registry(const std::string& data, unsigned m,
                                               std::vector<std::string> signers) {
  if (has_registry(data)) return std::unexpected(fmt::format("{} is there already", genesis_path(data)));
  if (lost_registry(data))
    return std::unexpected(
        fmt::format("{0} says that there was a registry here, and {1}/registry is gone: restore it, "
                    "or remove {0} to begin a new one",
                    marker_path(data), data));
  if (std::string problem = signers_problem(m, signers); !problem.empty()) return std::unexpected(problem);
  std::vector<KeptKey> keys;
  for (const std::string& name : signers) {
    auto key = load_or_make_key(data, name);
    if (!key) return std::unexpected(key.error().message);
    keys.push_back(std::move(*key));
  }
  auto log_key = load_or_make_key(data, log_key_name);
  if (!log_key) return std::unexpected(log_key.error().message);
  std::vector<std::pair<std::string, const crypto::Ed25519Key*>> approving;
  for (std::size_t i = 0; i < signers.size(); ++i) approving.emplace_back(signers[i], &keys[i].key);
  auto genesis = format::make_genesis(m, std::move(approving), {}, io::wall_clock());
  if (!genesis)
    return std::unexpected(fmt::format("these signers make no registry: {}", genesis.error().context));
  Made made{.loaded = {std::move(*genesis), {}, log_key->key}, .signers = {}};
  made.loaded.roots = roots_of(made.loaded.genesis, made.loaded.log_key);
  if (auto written = write_files(data, made.loaded); !written) return std::unexpected(written.error());
  if (auto marked = write_marker(data, made.loaded.roots); !marked) return std::unexpected(marked.error());
  for (std::size_t i = 0; i < signers.size(); ++i)
    made.signers.push_back({signers[i], keys[i].key.public_key(), key_path(data, signers[i]), keys[i].made});
  return made;
}

std::expected<LoadedGenesis, std::string> load_registry(const std::string& data) {
  const std::string path = genesis_path(data), beside = trust_roots_path(data);
  const auto bytes = io::read_small_file(path, genesis_max);
  if (!bytes && lost_registry(data))
    return std::unexpected(fmt::format("{} {}, and {} says that there was one: restore {}/registry", path,
                                       bytes.error().context, marker_path(data), data));
  if (!bytes)
    return std::unexpected(fmt::format("{} {}; make a registry first: cairn registry init --data {}", path,
                                       bytes.error().context, data));
  auto genesis = format::decode_genesis(as_bytes(*bytes));
  if (!genesis) return std::unexpected(fmt::format("{}: {}", path, genesis.error().context));
  if (const auto right = format::check_genesis(*genesis); !right)
    return std::unexpected(fmt::format("{}: {}", path, right.error().context));
  const auto text = io::read_small_file(beside, roots_max);
  if (!text) return std::unexpected(fmt::format("{} {}", beside, text.error().context));
  std::string detail;
  auto roots = format::parse_trust_roots(*text, detail);
  if (!roots) return std::unexpected(fmt::format("{}: {}", beside, detail));
  auto log_key = load_key(data, log_key_name);
  if (!log_key) return std::unexpected(log_key.error().message);
  const format::TrustRoots expected = roots_of(*genesis, *log_key);
  if (roots->genesis_payload_b3 != expected.genesis_payload_b3 ||
      roots->genesis_commit_b3 != expected.genesis_commit_b3)
    return std::unexpected(fmt::format("{} names another genesis than {}", beside, path));
  if (roots->log_key != expected.log_key)
    return std::unexpected(
        fmt::format("{} names another log key than {}", beside, key_path(data, log_key_name)));
  if (auto marked = check_marker(data, *roots); !marked) return std::unexpected(marked.error());
  return LoadedGenesis{std::move(*genesis), std::move(*roots), std::move(*log_key)};
}

GenesisInMemory make_registry_in_memory(std::string signer) {
  const crypto::Ed25519Key signer_key = new_signing_key(), log_key = new_signing_key();
  auto genesis = format::make_genesis(1, {{signer, &signer_key}}, {}, io::wall_clock());
  CHECK(genesis.has_value());
  format::TrustRoots roots = roots_of(*genesis, log_key);
  return {{std::move(*genesis), std::move(roots), log_key}, std::move(signer), signer_key};
}

}  // namespace cairn::cli
