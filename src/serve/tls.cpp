#include "serve/tls.h"

#include <fmt/format.h>

#include "config/load.h"
#include "io/small_file.h"

namespace cairn::serve {
namespace {

constexpr std::size_t file_max = 1 << 20;

// The same words for every file, with what can be done about it.
template <class Text>
std::expected<Text, std::string> told(const std::string& key, const std::string& path, Result<Text> text) {
  if (text) return std::move(*text);
  if (text.error().code == ErrorCode::forbidden)
    return std::unexpected(
        fmt::format("{}: {}: {}; make it private: chmod 600 {}", key, path, text.error().context, path));
  return std::unexpected(fmt::format("{}: {}: {}", key, path, text.error().context));
}

auto read(const std::string& key, const std::string& path) {
  return told(key, path, io::read_regular_file(path, file_max));
}
auto read_secret(const std::string& key, const std::string& path) {
  return told(key, path, io::read_private_file(path, file_max));
}

std::expected<io::TlsIdentity, std::string> read_identity(const std::string& cert_name,
                                                          const std::string& cert,
                                                          const std::string& key_name,
                                                          const std::string& key) {
  auto chain = read(cert_name, cert);
  if (!chain) return std::unexpected(chain.error());
  auto secret = read_secret(key_name, key);
  if (!secret) return std::unexpected(secret.error());
  return io::TlsIdentity{std::move(*chain), std::move(*secret), {}};
}

// One identity is tried alone first, so that what is wrong with it can be told by its files.
std::expected<void, std::string> try_alone(const io::TlsIdentity& identity, const std::string& named) {
  auto made = io::TlsServer::make({.identities = {identity}}, std::make_shared<io::TlsTicketKeys>());
  if (!made) return std::unexpected(fmt::format("{}: {}", named, made.error()));
  return {};
}

std::expected<std::vector<io::TlsIdentity>, std::string> read_identities(const config::Snapshot& snapshot,
                                                                         const config::ServerKeys& keys,
                                                                         const std::string& prefix) {
  const auto name = [&](const char* key) { return config::full_name(prefix, key); };
  std::vector<io::TlsIdentity> all;
  const std::string &cert = snapshot.get(keys.tls_cert), &key = snapshot.get(keys.tls_key);
  auto first = read_identity(name("tls.cert"), cert, name("tls.key"), key);
  if (!first) return std::unexpected(first.error());
  all.push_back(std::move(*first));
  if (auto fits = try_alone(
          all.front(), fmt::format("{} and {}: {} and {}", name("tls.cert"), name("tls.key"), cert, key));
      !fits)
    return std::unexpected(fits.error());
  if (const std::string& ocsp = snapshot.get(keys.tls_ocsp); !ocsp.empty()) {
    auto answer = read(name("tls.ocsp"), ocsp);
    if (!answer) return std::unexpected(answer.error());
    all.front().ocsp = std::move(*answer);
    if (auto fits = try_alone(all.front(), fmt::format("{}: {}", name("tls.ocsp"), ocsp)); !fits)
      return std::unexpected(fits.error());
  }
  for (const std::string& entry : snapshot.get(keys.tls_certs)) {
    const auto pair = config::split_pair(entry);
    if (!pair) return std::unexpected(fmt::format("{}: {}: is not CERT:KEY", name("tls.certs"), entry));
    auto more = read_identity(name("tls.certs"), pair->first, name("tls.certs"), pair->second);
    if (!more) return std::unexpected(more.error());
    if (auto fits = try_alone(*more, fmt::format("{}: {}", name("tls.certs"), entry)); !fits)
      return std::unexpected(fits.error());
    all.push_back(std::move(*more));
  }
  return all;
}

}  // namespace

std::expected<std::shared_ptr<const io::TlsServer>, std::string> load_tls_server(
    const config::Snapshot& snapshot, const config::ServerKeys& keys, const std::string& prefix,
    std::shared_ptr<io::TlsTicketKeys> tickets) {
  if (!snapshot.get(keys.tls_enabled)) return nullptr;
  auto identities = read_identities(snapshot, keys, prefix);
  if (!identities) return std::unexpected(identities.error());
  io::TlsServerOptions options{.identities = std::move(*identities)};
  if (keys.http2) options.protocols.insert(options.protocols.begin(), "h2");
  if (snapshot.get(keys.tls_lowest) == config::LowestTls::tls12) options.lowest = io::TlsVersion::tls12;
  auto made = io::TlsServer::make(options, std::move(tickets));
  if (!made) return std::unexpected(fmt::format("{}: {}", config::full_name(prefix, "tls"), made.error()));
  return made;
}

std::expected<std::shared_ptr<const io::TlsClient>, std::string> load_tls_client(
    const config::Snapshot& snapshot, const config::ServerKeys& keys, const std::string& prefix) {
  const std::string &name = config::full_name(prefix, "tls.ca"), &path = snapshot.get(keys.tls_ca);
  io::TlsClientOptions options;
  if (!path.empty()) {
    auto text = read(name, path);
    if (!text) return std::unexpected(text.error());
    options.authorities = std::move(*text);
    if (options.authorities.empty()) return std::unexpected(fmt::format("{}: {}: is empty", name, path));
  }
  auto made = io::TlsClient::make(options);
  if (!made) return std::unexpected(fmt::format("{}: {}: {}", name, path, made.error()));
  return made;
}

}  // namespace cairn::serve
