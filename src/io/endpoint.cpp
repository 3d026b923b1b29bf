#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

#include "io/stream.h"

namespace cairn::io {

Result<Endpoint> parse_endpoint(std::string_view text) {
  Endpoint endpoint;
  if (text.starts_with("unix:")) {
    endpoint.path = text.substr(5);
    if (endpoint.path.empty()) return fail(ErrorCode::invalid, "unix: needs a path");
    return endpoint;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return fail(ErrorCode::invalid, "an address is HOST:PORT");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return fail(ErrorCode::invalid, "an IPv6 address needs brackets");
  auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (problem != std::errc{} || end != port.data() + port.size()) return fail(ErrorCode::invalid, "bad port");
  endpoint.host = host;
  return endpoint;
}

std::string format_endpoint(const Endpoint& endpoint) {
  if (!endpoint.path.empty()) return "unix:" + endpoint.path;
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(v6 ? "[{}]:{}" : "{}:{}"), endpoint.host, endpoint.port);
}

std::string format_peer(const PeerAddress& peer) {
  if (peer.local) return fmt::format("uid:{}", peer.uid);
  char text[INET6_ADDRSTRLEN] = "";
  const bool v4 = peer.bytes[10] == 0xff && peer.bytes[11] == 0xff;
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? peer.bytes + 12 : peer.bytes, text, sizeof text);
  return fmt::format(fmt::runtime(v4 ? "{}:{}" : "[{}]:{}"), text, peer.port);
}

}  // namespace cairn::io
