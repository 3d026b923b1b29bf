#include "serve/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/endpoint.h"

namespace cairn::serve {

bool Settings::trusts(const io::PeerAddress& peer) const noexcept {
  if (peer.local) return trust_local;
  return std::ranges::any_of(
      trusted, [ip = std::to_array(peer.bytes)](const IpNetwork& network) { return network.contains(ip); });
}

Settings read_settings(const config::Snapshot& snapshot, const config::ServerKeys& keys) {
  Settings settings{};
  settings.max_conns = static_cast<std::uint64_t>(snapshot.get(keys.max_conns));
  settings.max_conns_per_ip = static_cast<std::uint64_t>(snapshot.get(keys.max_conns_per_ip));
  settings.max_inflight = static_cast<std::uint64_t>(snapshot.get(keys.max_inflight));
  settings.max_rps = static_cast<std::uint64_t>(snapshot.get(keys.max_rps));
  settings.max_body = snapshot.get(keys.max_body_bytes).count;
  settings.reads_need_capability =
      keys.auth_reads && snapshot.get(*keys.auth_reads) == config::ReadAccess::required;
  settings.decode.ratio = snapshot.get(keys.decoded_ratio);
  settings.decode.bytes = snapshot.get(keys.decoded_bytes).count;
  settings.request_timeout = snapshot.get(keys.request_timeout);
  settings.drain_timeout = snapshot.get(keys.drain_timeout);
  http::ServerTimeouts& timeouts = settings.server.timeouts;
  timeouts.head = timeouts.read = snapshot.get(keys.read_timeout);
  timeouts.write = snapshot.get(keys.write_timeout);
  timeouts.idle = snapshot.get(keys.idle_timeout);
  // Handshakes never take all of the connections' places.
  settings.server.handshakes_max = static_cast<std::size_t>(
      std::clamp<std::uint64_t>(settings.max_conns / 2, 1, http::ServerOptions().handshakes_max));
  if (const Duration hsts = snapshot.get(keys.tls_hsts); hsts > Duration{})
    settings.server.strict_transport =
        fmt::format("Strict-Transport-Security: max-age={}\r\n", hsts.to_millis() / 1000);
  if (keys.http2) {
    settings.server.max_streams = static_cast<unsigned>(snapshot.get(keys.http2->max_streams));
    settings.server.max_running = static_cast<unsigned>(snapshot.get(keys.http2->max_running));
  }
  settings.server.head.head_bytes = static_cast<std::uint32_t>(snapshot.get(keys.max_header_bytes).count);
  for (const std::string& uid : snapshot.get(keys.uds_allow_uids))
    settings.allow_uids.push_back(static_cast<std::uint32_t>(std::stoul(uid)));
  for (const std::string& peer : snapshot.get(keys.trusted)) {
    if (const auto network = parse_network(peer)) settings.trusted.push_back(*network);
    settings.trust_local = settings.trust_local || peer == "unix";
  }
  settings.names = snapshot.get(keys.names);
  if (const auto bound = parse_endpoint(snapshot.get(keys.bind))) settings.bound = bound->host;
  settings.origins = snapshot.get(keys.cors_origins);
  return settings;
}

}  // namespace cairn::serve
