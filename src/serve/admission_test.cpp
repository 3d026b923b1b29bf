#include "serve/admission.h"

#include <gtest/gtest.h>

#include <vector>

namespace cairn::serve {
namespace {

using Verdict = http::Handler::Admission;

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

TEST(Admission, beyond_the_cap_sixteen_are_reserved_and_the_rest_refused) {
  Admission admission(limits(4, 100));
  std::vector<Verdict> verdicts;
  for (int i = 0; i < 4 + 16 + 3; ++i) verdicts.push_back(admission.connect(peer(1)));
  for (std::size_t i = 0; i < verdicts.size(); ++i)
    EXPECT_EQ(verdicts[i], i < 4 ? Verdict::welcome : i < 20 ? Verdict::reserved : Verdict::refused) << i;
  EXPECT_EQ(admission.connections().taken(), 4u);
  for (const Verdict verdict : verdicts)
    if (verdict != Verdict::refused) admission.disconnect(peer(1), verdict);
  EXPECT_EQ(admission.connections().taken(), 0u);
  EXPECT_EQ(admission.connect(peer(1)), Verdict::welcome);
  admission.disconnect(peer(1), Verdict::welcome);
}

TEST(Admission, an_address_is_counted_whatever_its_port) {
  Admission admission(limits(100, 2));
  EXPECT_EQ(admission.connect(peer(1, 1)), Verdict::welcome);
  EXPECT_EQ(admission.connect(peer(1, 2)), Verdict::welcome);
  EXPECT_EQ(admission.connect(peer(1, 3)), Verdict::reserved);
  EXPECT_EQ(admission.connect(peer(2, 1)), Verdict::welcome);
  EXPECT_EQ(admission.connections().taken(), 3u) << "the one over its address's cap holds no place";
  admission.disconnect(peer(1, 3), Verdict::reserved);
  admission.disconnect(peer(1, 2), Verdict::welcome);
  EXPECT_EQ(admission.connect(peer(1, 4)), Verdict::welcome);
  admission.disconnect(peer(1, 4), Verdict::welcome);
  admission.disconnect(peer(1, 1), Verdict::welcome);
  admission.disconnect(peer(2, 1), Verdict::welcome);
}

TEST(Admission, counts_of_every_address_return_to_zero) {
  Admission admission(limits(100'000, 1));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 256; ++i)
      EXPECT_EQ(admission.connect(peer(static_cast<std::uint8_t>(i))), Verdict::welcome) << i;
    for (int i = 0; i < 256; ++i) admission.disconnect(peer(static_cast<std::uint8_t>(i)), Verdict::welcome);
  }
  EXPECT_EQ(admission.connections().taken(), 0u);
}

TEST(Admission, a_reserved_connection_counts_for_no_address) {
  Admission admission(limits(1, 1));
  EXPECT_EQ(admission.connect(peer(1)), Verdict::welcome);
  EXPECT_EQ(admission.connect(peer(2)), Verdict::reserved);
  admission.disconnect(peer(1), Verdict::welcome);
  EXPECT_EQ(admission.connect(peer(2)), Verdict::welcome);
  admission.disconnect(peer(2), Verdict::reserved);
  admission.disconnect(peer(2), Verdict::welcome);
}

TEST(Admission, the_health_listener_uses_the_reserved_ones_only) {
  Admission admission(limits(100, 100));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(admission.connect_for_health(), Verdict::reserved);
  EXPECT_EQ(admission.connect_for_health(), Verdict::refused);
  EXPECT_EQ(admission.connections().taken(), 0u);
  EXPECT_EQ(admission.connect(peer(1)), Verdict::welcome);
  admission.disconnect(peer(1), Verdict::welcome);
  for (int i = 0; i < 16; ++i) admission.disconnect(peer(1), Verdict::reserved);
}

TEST(Admission, a_unix_peer_is_our_own_user_or_a_named_one) {
  Settings settings = limits(100, 1);
  settings.allow_uids = {1000, 1001};
  Admission admission(settings);
  EXPECT_EQ(admission.connect(local_peer(7, true)), Verdict::welcome);
  EXPECT_EQ(admission.connect(local_peer(1001, false)), Verdict::welcome);
  EXPECT_EQ(admission.connect(local_peer(1001, false)), Verdict::welcome) << "no cap per address";
  EXPECT_EQ(admission.connect(local_peer(1002, false)), Verdict::refused) << "not even for health";
  for (int i = 0; i < 3; ++i) admission.disconnect(local_peer(1001, false), Verdict::welcome);
  settings.allow_uids = {1002};
  admission.apply(settings);
  EXPECT_EQ(admission.connect(local_peer(1001, false)), Verdict::refused);
  EXPECT_EQ(admission.connect(local_peer(1002, false)), Verdict::welcome);
  admission.disconnect(local_peer(1002, false), Verdict::welcome);
}

TEST(Admission, new_limits_hold_at_once_and_evict_nobody) {
  Admission admission(limits(2, 2));
  EXPECT_EQ(admission.connect(peer(1)), Verdict::welcome);
  EXPECT_EQ(admission.connect(peer(1)), Verdict::welcome);
  Settings lower = limits(1, 1);
  lower.max_inflight = 0;
  lower.max_rps = 1;
  admission.apply(lower);
  EXPECT_EQ(admission.connections().taken(), 2u);
  admission.disconnect(peer(1), Verdict::welcome);
  EXPECT_EQ(admission.connect(peer(2)), Verdict::reserved);
  EXPECT_FALSE(admission.inflight.try_take());
  EXPECT_EQ(admission.rate.rate(), 1u);
  admission.apply(limits(3, 1));
  EXPECT_EQ(admission.connect(peer(1)), Verdict::reserved) << "its address has one already";
  EXPECT_EQ(admission.connect(peer(2)), Verdict::welcome);
  admission.disconnect(peer(2), Verdict::reserved);
  admission.disconnect(peer(1), Verdict::reserved);
  admission.disconnect(peer(2), Verdict::welcome);
  admission.disconnect(peer(1), Verdict::welcome);
}

}  // namespace
}  // namespace cairn::serve
