#include "services/index/reach.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/network.h"

namespace cairn::index {
namespace {

using io::DhtMode;

format::Endpoint at(const char* text) {
  const auto network = parse_network(
      std::string(text) + (std::string_view(text).find(':') == std::string_view::npos ? "/32" : "/128"));
  return {std::bit_cast<std::array<std::byte, 16>>(network.value().bytes), 80, false};
}

TEST(Reach, an_address_is_named_only_where_it_makes_sense) {
  struct Case {
    const char* address;
    bool local, lan, private_one, public_one;
  };
  constexpr Case cases[] = {
      {"127.0.0.1", true, false, false, false},    {"::1", true, false, false, false},
      {"10.1.2.3", true, true, true, false},       {"172.31.255.255", true, true, true, false},
      {"172.32.0.1", true, false, true, true},     {"192.168.0.1", true, true, true, false},
      {"169.254.1.1", true, true, true, false},    {"100.64.0.1", true, true, true, false},
      {"8.8.8.8", true, false, true, true},        {"0.0.0.0", false, false, false, false},
      {"224.0.0.1", false, false, false, false},   {"255.255.255.255", false, false, false, false},
      {"192.0.2.1", false, false, false, false},   {"fe80::1", true, true, true, false},
      {"fd00::1", true, true, true, false},        {"2a00::1", true, false, true, true},
      {"2001:db8::1", false, false, false, false}, {"ff02::1", false, false, false, false},
      {"::", false, false, false, false}};
  for (const Case& one : cases) {
    EXPECT_EQ(can_reach(at(one.address), {DhtMode::local, false}), one.local) << one.address;
    EXPECT_EQ(can_reach(at(one.address), {DhtMode::lan, false}), one.lan) << one.address;
    EXPECT_EQ(can_reach(at(one.address), {DhtMode::private_network, false}), one.private_one) << one.address;
    EXPECT_EQ(can_reach(at(one.address), {DhtMode::public_network, false}), one.public_one) << one.address;
  }
}

TEST(Reach, loopback_is_named_where_it_is_allowed) {
  for (const DhtMode mode : {DhtMode::lan, DhtMode::private_network, DhtMode::public_network})
    EXPECT_TRUE(can_reach(at("127.0.0.1"), {mode, true}));
}

}  // namespace
}  // namespace cairn::index
