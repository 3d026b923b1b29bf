#include <fmt/format.h>

#include <bit>

#include "base/endpoint.h"
#include "base/network.h"
#include "io/stream.h"

namespace cairn::io {

std::string format_peer(const PeerAddress& peer) {
  if (peer.local) return fmt::format("uid:{}", peer.uid);
  IpBytes ip;
  std::copy(std::begin(peer.bytes), std::end(peer.bytes), ip.begin());
  return format_endpoint({format_ip(ip), peer.port});
}

}  // namespace cairn::io
