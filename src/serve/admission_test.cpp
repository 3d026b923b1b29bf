#include "serve/admission.h"

#include <gtest/gtest.h>

#include <vector>

namespace cairn::serve {
namespace {

Settings limits(std::uint64_t connections, std::uint64_t per_address) {
  Settings settings{};
  settings.max_conns = connections;
  settings.max_conns_per_ip = per_address;
  settings.max_inflight = 3;
  settings.max_rps = 5;
  return settings;
}

io::PeerAddress peer(std::uint8_t last, std::uint16_t port = 1000) {
  io::PeerAddress address;
  address.bytes[10] = address.bytes[11] = 0xff;
  address.bytes[12] = 10;
  address.bytes[15] = last;
  address.port = port;
  return address;
}

io::PeerAddress local_peer(std::uint32_t uid, bool same_user) {
  io::PeerAddress address;
  address.local = true;
  address.uid = uid;
  address.same_user = same_user;
  return address;
}

io::PeerAddress peer_v6(std::uint8_t network, std::uint8_t host) {
  io::PeerAddress address;
  address.bytes[0] = 0x20;
  address.bytes[1] = 0x01;
  address.bytes[7] = network;
  address.bytes[15] = host;
  return address;
}

TEST(Admission, no_more_than_the_cap_have_a_place) {
  Admission admission(limits(4, 100));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(admission.try_connect(peer(1)));
  EXPECT_FALSE(admission.try_connect(peer(1)));
  EXPECT_FALSE(admission.try_connect(local_peer(1, true)));
  EXPECT_EQ(admission.connections().taken(), 4u);
  admission.disconnect(peer(1));
  EXPECT_TRUE(admission.try_connect(peer(2)));
  admission.disconnect(peer(2));
  for (int i = 0; i < 3; ++i) admission.disconnect(peer(1));
  EXPECT_EQ(admission.connections().taken(), 0u);
}

TEST(Admission, an_address_is_counted_whatever_its_port) {
  Admission admission(limits(100, 2));
  EXPECT_TRUE(admission.try_connect(peer(1, 1)));
  EXPECT_TRUE(admission.try_connect(peer(1, 2)));
  EXPECT_FALSE(admission.try_connect(peer(1, 3)));
  EXPECT_TRUE(admission.try_connect(peer(2, 1)));
  EXPECT_EQ(admission.connections().taken(), 3u) << "the one over its address's cap holds no place";
  admission.disconnect(peer(1, 2));
  EXPECT_TRUE(admission.try_connect(peer(1, 4)));
  admission.disconnect(peer(1, 4));
  admission.disconnect(peer(1, 1));
  admission.disconnect(peer(2, 1));
}

TEST(Admission, ipv6_is_counted_by_its_first_64_bits) {
  Admission admission(limits(100, 2));
  EXPECT_TRUE(admission.try_connect(peer_v6(1, 1)));
  EXPECT_TRUE(admission.try_connect(peer_v6(1, 2)));
  EXPECT_FALSE(admission.try_connect(peer_v6(1, 3)));
  EXPECT_TRUE(admission.try_connect(peer_v6(2, 1)));
  // IPv4 addresses share their first 64 bits as well, and are not one.
  EXPECT_TRUE(admission.try_connect(peer(1)));
  EXPECT_TRUE(admission.try_connect(peer(2)));
  EXPECT_TRUE(admission.try_connect(peer(3)));
  for (std::uint8_t i = 1; i <= 3; ++i) admission.disconnect(peer(i));
  admission.disconnect(peer_v6(1, 9));
  admission.disconnect(peer_v6(1, 1));
  admission.disconnect(peer_v6(2, 1));
}

TEST(Admission, counts_of_every_address_return_to_zero) {
  Admission admission(limits(100'000, 1));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 256; ++i) EXPECT_TRUE(admission.try_connect(peer(static_cast<std::uint8_t>(i)))) << i;
    for (int i = 0; i < 256; ++i) admission.disconnect(peer(static_cast<std::uint8_t>(i)));
  }
  EXPECT_EQ(admission.connections().taken(), 0u);
}

TEST(Admission, each_door_has_sixteen_places_for_health) {
  using Door = Admission::Door;
  Admission admission(limits(1, 1));
  std::vector<PermitHold> holds;
  for (const Door door : {Door::open, Door::health, Door::local}) {
    for (int i = 0; i < 16; ++i) {
      auto hold = admission.try_reserve(door);
      ASSERT_TRUE(hold);
      holds.push_back(std::move(*hold));
    }
    EXPECT_FALSE(admission.try_reserve(door));
  }
  EXPECT_EQ(admission.connections().taken(), 0u);
  holds.clear();
  EXPECT_TRUE(admission.try_reserve(Door::health));
}

TEST(Admission, a_unix_peer_is_our_own_user_or_a_named_one) {
  Settings settings = limits(100, 1);
  settings.allow_uids = {1000, 1001};
  Admission admission(settings);
  EXPECT_TRUE(admission.is_allowed(peer(1)));
  EXPECT_TRUE(admission.is_allowed(local_peer(7, true)));
  EXPECT_TRUE(admission.is_allowed(local_peer(1001, false)));
  EXPECT_FALSE(admission.is_allowed(local_peer(1002, false)));
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(admission.try_connect(local_peer(1001, false))) << "no cap per address";
  for (int i = 0; i < 3; ++i) admission.disconnect(local_peer(1001, false));
  settings.allow_uids = {1002};
  admission.apply(settings);
  EXPECT_FALSE(admission.is_allowed(local_peer(1001, false)));
  EXPECT_TRUE(admission.is_allowed(local_peer(1002, false)));
}

TEST(Admission, who_gives_way_is_of_the_address_with_the_most_or_of_the_full_one) {
  Admission admission(limits(8, 5));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(admission.try_connect(peer(1)));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(admission.try_connect(peer(2)));
  EXPECT_TRUE(admission.who_gives_way(peer(9)) == Admission::key_of(peer(2)));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(admission.try_connect(peer(1)));
  EXPECT_TRUE(admission.who_gives_way(peer(9)) == Admission::key_of(peer(1)));
  Settings lower = limits(100, 3);
  admission.apply(lower);
  EXPECT_TRUE(admission.who_gives_way(peer(2)) == Admission::key_of(peer(2))) << "it is at its own cap";
  admission.apply(limits(100, 100));
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(admission.try_connect(local_peer(1, true)));
  EXPECT_TRUE(admission.who_gives_way(peer(9)) == Admission::key_of(local_peer(2, true)));
  for (int i = 0; i < 6; ++i) admission.disconnect(local_peer(1, true));
  for (int i = 0; i < 5; ++i) admission.disconnect(peer(1));
  for (int i = 0; i < 3; ++i) admission.disconnect(peer(2));
}

TEST(Admission, a_trusted_address_has_as_many_connections_as_all) {
  Admission admission(limits(3, 1));
  EXPECT_TRUE(admission.try_connect(peer(1)));
  EXPECT_FALSE(admission.try_connect(peer(1)));
  EXPECT_TRUE(admission.try_connect(peer(1), false));
  EXPECT_TRUE(admission.try_connect(peer(1), false));
  EXPECT_FALSE(admission.try_connect(peer(1), false)) << "the cap of all holds";
  for (int i = 0; i < 3; ++i) admission.disconnect(peer(1));
}

TEST(Admission, new_limits_hold_at_once_and_evict_nobody) {
  Admission admission(limits(2, 2));
  EXPECT_TRUE(admission.try_connect(peer(1)));
  EXPECT_TRUE(admission.try_connect(peer(1)));
  Settings lower = limits(1, 1);
  lower.max_inflight = 0;
  lower.max_rps = 1;
  admission.apply(lower);
  EXPECT_EQ(admission.connections().taken(), 2u);
  admission.disconnect(peer(1));
  EXPECT_FALSE(admission.try_connect(peer(2)));
  EXPECT_FALSE(admission.inflight.try_take());
  EXPECT_EQ(admission.rate.rate(), 1u);
  admission.apply(limits(3, 1));
  EXPECT_FALSE(admission.try_connect(peer(1))) << "its address has one already";
  EXPECT_TRUE(admission.try_connect(peer(2)));
  admission.disconnect(peer(2));
  admission.disconnect(peer(1));
}

}  // namespace
}  // namespace cairn::serve
