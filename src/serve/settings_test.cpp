#include "serve/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace cairn::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Loaded {
  explicit Loaded(std::vector<config::Setting> settings) {
    config::Sources sources;
    sources.settings = std::move(settings);
    auto snapshot = config::load(schema, sources);
    EXPECT_TRUE(snapshot.has_value());
    value = read_settings(**snapshot, keys);
  }
  config::Schema schema;
  config::ServerKeys keys = config::declare_server_keys(schema, {});
  Settings value;
};

TEST(Settings, the_defaults_are_those_of_the_specification) {
  const Settings settings = Loaded({}).value;
  EXPECT_EQ(settings.max_conns, 1024u);
  EXPECT_EQ(settings.max_conns_per_ip, 256u);
  EXPECT_EQ(settings.max_inflight, 512u);
  EXPECT_EQ(settings.max_rps, 500u);
  EXPECT_EQ(settings.max_body, 1u << 20);
  EXPECT_EQ(settings.decode.ratio, 10);
  EXPECT_EQ(settings.decode.bytes, 8u << 20);
  EXPECT_EQ(settings.request_timeout, Duration::seconds(5));
  EXPECT_EQ(settings.drain_timeout, Duration::seconds(3));
  EXPECT_EQ(settings.server.timeouts.head, Duration::seconds(5));
  EXPECT_EQ(settings.server.timeouts.read, Duration::seconds(5));
  EXPECT_EQ(settings.server.timeouts.write, Duration::seconds(5));
  EXPECT_EQ(settings.server.timeouts.idle, Duration::seconds(60));
  EXPECT_EQ(settings.server.timeouts.linger, Duration::seconds(2));
  EXPECT_EQ(settings.server.linger_bytes, 2u << 20);
  EXPECT_EQ(settings.server.lowest_rate, 1024u);
  EXPECT_EQ(settings.server.head.head_bytes, 32u << 10);
  EXPECT_EQ(settings.server.head.target_bytes, 8u << 10);
  EXPECT_THAT(settings.allow_uids, IsEmpty());
  EXPECT_THAT(settings.names, IsEmpty());
  EXPECT_THAT(settings.origins, IsEmpty());
}

TEST(Settings, peers_are_trusted_by_network_or_for_their_socket) {
  const Settings none = Loaded({}).value;
  const Settings some = Loaded({{"server.trusted", "10.0.0.0/8,2001:db8::/32"}}).value;
  const Settings local = Loaded({{"server.trusted", "unix"}}).value;
  const io::PeerAddress near{.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3}};
  const io::PeerAddress far{.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 11, 1, 2, 3}};
  const io::PeerAddress six{.bytes = {0x20, 0x01, 0x0d, 0xb8, 1}};
  const io::PeerAddress socket{.local = true};
  for (const io::PeerAddress& peer : {near, far, six, socket}) EXPECT_FALSE(none.trusts(peer));
  EXPECT_TRUE(some.trusts(near) && some.trusts(six));
  EXPECT_FALSE(some.trusts(far) || some.trusts(socket));
  EXPECT_TRUE(local.trusts(socket));
  EXPECT_FALSE(local.trusts(near));
}

TEST(Settings, every_key_reaches_its_setting) {
  const Settings settings = Loaded({{"server.max_conns", "11"},
                                    {"server.max_conns_per_ip", "12"},
                                    {"server.max_inflight", "13"},
                                    {"server.max_rps", "14"},
                                    {"limits.max_body_bytes", "15B"},
                                    {"limits.decoded_ratio", "6.5"},
                                    {"limits.decoded_bytes", "17B"},
                                    {"limits.max_header_bytes", "2KiB"},
                                    {"timeouts.read", "18ms"},
                                    {"timeouts.write", "19ms"},
                                    {"timeouts.idle", "20ms"},
                                    {"timeouts.request", "21ms"},
                                    {"timeouts.drain", "1500ms"},
                                    {"uds.allow_uids", "0,1000"}})
                                .value;
  EXPECT_EQ(settings.max_conns, 11u);
  EXPECT_EQ(settings.max_conns_per_ip, 12u);
  EXPECT_EQ(settings.max_inflight, 13u);
  EXPECT_EQ(settings.max_rps, 14u);
  EXPECT_EQ(settings.max_body, 15u);
  EXPECT_EQ(settings.decode.ratio, 6.5);
  EXPECT_EQ(settings.decode.bytes, 17u);
  EXPECT_EQ(settings.server.head.head_bytes, 2048u);
  EXPECT_EQ(settings.server.timeouts.head, Duration::millis(18));
  EXPECT_EQ(settings.server.timeouts.read, Duration::millis(18));
  EXPECT_EQ(settings.server.timeouts.write, Duration::millis(19));
  EXPECT_EQ(settings.server.timeouts.idle, Duration::millis(20));
  EXPECT_EQ(settings.request_timeout, Duration::millis(21));
  EXPECT_EQ(settings.drain_timeout, Duration::millis(1500));
  EXPECT_THAT(settings.allow_uids, ElementsAre(0, 1000));
}

// The parser's offsets have 16 bits: the largest head that may be configured must be one it can take.
TEST(Settings, the_largest_head_that_may_be_configured_can_be_parsed) {
  const Settings settings = Loaded({{"limits.max_header_bytes", "63KiB"}}).value;
  EXPECT_LE(settings.server.head.head_bytes, 65535u);
}

}  // namespace
}  // namespace cairn::serve
