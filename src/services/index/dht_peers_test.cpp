#include "services/index/dht_peers.h"

#include <gtest/gtest.h>

namespace cairn::index {
namespace {

io::DhtPeer peer(std::uint8_t number) {
  io::DhtPeer out;
  out.id.fill(std::byte{number});
  out.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, number};
  out.port = static_cast<std::uint16_t>(7000 + number);
  return out;
}

TEST(DhtPeers, what_is_written_is_read) {
  const std::vector<io::DhtPeer> peers = {peer(1), peer(2)};
  EXPECT_EQ(parse_dht_peers(format_dht_peers(peers)), peers);
  EXPECT_TRUE(parse_dht_peers(format_dht_peers({})).empty());
  EXPECT_EQ(parse_dht_peers(format_dht_peers(std::vector(300, peer(3)))).size(), dht_peers_most);
}

TEST(DhtPeers, a_file_that_does_not_read_is_as_if_there_were_none) {
  const std::string good = format_dht_peers({peer(1), peer(2)});
  for (std::size_t i = 1; i < good.size(); ++i) {
    const auto some = parse_dht_peers(std::string_view(good).substr(0, i));
    EXPECT_LE(some.size(), 1u) << i;
  }
  for (const std::string& bad :
       {good + "x\n", std::string("cairn-dht-peers-v2\n"), std::string("nothing"), good + "\n"})
    EXPECT_TRUE(parse_dht_peers(bad).empty()) << bad;
}

}  // namespace
}  // namespace cairn::index
