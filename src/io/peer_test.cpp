#include <gtest/gtest.h>

#include "io/stream.h"

namespace cairn::io {
namespace {

PeerAddress mapped(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint16_t port) {
  PeerAddress peer;
  peer.bytes[10] = peer.bytes[11] = 0xff;
  peer.bytes[12] = a, peer.bytes[13] = b, peer.bytes[14] = c, peer.bytes[15] = d;
  peer.port = port;
  return peer;
}

TEST(PeerAddress, a_mapped_address_is_shown_as_ipv4) {
  EXPECT_EQ(format_peer(mapped(192, 0, 2, 7, 443)), "192.0.2.7:443");
  EXPECT_EQ(format_peer(mapped(0, 0, 0, 0, 0)), "0.0.0.0:0");
}

TEST(PeerAddress, ipv6_is_shown_in_brackets) {
  PeerAddress peer;
  peer.bytes[15] = 1;
  peer.port = 80;
  EXPECT_EQ(format_peer(peer), "[::1]:80");
  // Only the mapped prefix makes an address IPv4.
  PeerAddress other = mapped(192, 0, 2, 7, 1);
  other.bytes[0] = 0x20;
  other.bytes[1] = 0x01;
  EXPECT_EQ(format_peer(other), "[2001::ffff:c000:207]:1");
}

TEST(PeerAddress, a_unix_peer_is_its_user) {
  PeerAddress peer;
  peer.local = true;
  peer.uid = 1000;
  EXPECT_EQ(format_peer(peer), "uid:1000");
}

}  // namespace
}  // namespace cairn::io
