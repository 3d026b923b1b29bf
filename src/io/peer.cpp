#include <arpa/inet.h>
#include <fmt/format.h>

#include "io/stream.h"

namespace cairn::io {

std::string format_peer(const PeerAddress& peer) {
  if (peer.local) return fmt::format("uid:{}", peer.uid);
  char text[INET6_ADDRSTRLEN] = "";
  const bool v4 = peer.bytes[10] == 0xff && peer.bytes[11] == 0xff;
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? peer.bytes + 12 : peer.bytes, text, sizeof text);
  return fmt::format(fmt::runtime(v4 ? "{}:{}" : "[{}]:{}"), text, peer.port);
}

}  // namespace cairn::io
