#include <arpa/inet.h>
#include <fmt/format.h>

#include "io/stream.h"

namespace cairn::io {

std::string format_peer(const PeerAddress& peer) {
  if (peer.local) return fmt::format("uid:{}", peer.uid);
  char text[INET6_ADDRSTRLEN] = "";
  const bool v4 = IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(peer.bytes));
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? peer.bytes + 12 : peer.bytes, text, sizeof text);
  return fmt::format(fmt::runtime(v4 ? "{}:{}" : "[{}]:{}"), text, peer.port);
}

}  // namespace cairn::io
