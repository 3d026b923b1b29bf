#include "config/server_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/load.h"

namespace cairn::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Service {
  Schema schema;
  ServerKeys keys;
  explicit Service(const ServerDefaults& defaults = {.queues = {{"work", 512}}})
      : keys(declare_server_keys(schema, defaults)) {}

  std::expected<SnapshotPtr, Problems> with(std::string toml) const {
    Sources sources;
    sources.file = File{"c.toml", std::move(toml)};
    return load(schema, sources);
  }
  std::string problems(std::string toml) const {
    const auto loaded = with(std::move(toml));
    return loaded ? "" : format_problems(loaded.error());
  }
};

TEST(ServerKeys, a_socket_that_an_amnesic_service_is_asked_for_is_refused_and_not_ignored) {
  // Its default is none's wish: an amnesic service does without.
  const Service service({.uds_path = "/d/cairn.sock", .amnesia = true});
  EXPECT_EQ(service.problems("[amnesia]\nenabled = true\n"), "");
  EXPECT_EQ(service.problems("[amnesia]\nenabled = true\n[uds]\npath = \"\"\n"), "");
  EXPECT_EQ(service.problems("[uds]\npath = \"/d/other.sock\"\n"), "");
  EXPECT_THAT(service.problems("[amnesia]\nenabled = true\n[uds]\npath = \"/d/other.sock\"\n"),
              testing::AllOf(HasSubstr("c.toml:4"), HasSubstr("uds.path"), HasSubstr("amnesia.enabled")));
}

TEST(ServerKeys, defaults_are_those_of_the_specification) {
  Service service({.bind = "127.0.0.1:7410"});
  const auto loaded = service.with("");
  ASSERT_TRUE(loaded);
  const Snapshot& s = **loaded;
  const ServerKeys& k = service.keys;
  EXPECT_EQ(s.get(k.bind), "127.0.0.1:7410");
  EXPECT_EQ(s.get(k.metrics_addr), "");
  EXPECT_EQ(s.get(k.max_conns), 1024);
  EXPECT_EQ(s.get(k.max_inflight), 512);
  EXPECT_EQ(s.get(k.max_rps), 500);
  EXPECT_EQ(s.get(k.max_conns_per_ip), 256);
  EXPECT_EQ(s.get(k.max_body_bytes), Bytes::mib(1));
  EXPECT_EQ(s.get(k.decoded_ratio), 10.0);
  EXPECT_EQ(s.get(k.decoded_bytes), Bytes::mib(8));
  EXPECT_EQ(s.get(k.max_header_bytes), Bytes::kib(32));
  EXPECT_EQ(s.get(k.read_timeout), Duration::seconds(5));
  EXPECT_EQ(s.get(k.write_timeout), Duration::seconds(5));
  EXPECT_EQ(s.get(k.idle_timeout), Duration::seconds(60));
  EXPECT_EQ(s.get(k.request_timeout), Duration::seconds(5));
  EXPECT_EQ(s.get(k.drain_timeout), Duration::seconds(3));
  EXPECT_EQ(s.get(k.process.log_format), LogFormat::json);
  EXPECT_EQ(s.get(k.process.log_level), LogLevel::info);
  EXPECT_EQ(s.get(*k.auth_reads), ReadAccess::open);
  EXPECT_FALSE(s.get(k.tls_enabled));
  EXPECT_FALSE(s.get(k.amnesia));
  EXPECT_FALSE(s.get(k.danger_ok));
}

TEST(ServerKeys, every_other_spelling_means_its_key) {
  struct Case {
    std::string spelling, value, key, effective;
  };
  const std::vector<Case> cases{
      {"proxy.trusted", "[\"10.0.0.0/8\"]", "server.trusted", "10.0.0.0/8"},
      {"max_conns", "7", "server.max_conns", "7"},
      {"ingress.max_inflight", "7", "server.max_inflight", "7"},
      {"limits.inflight", "7", "server.max_inflight", "7"},
      {"ingress.rps_limit", "7", "server.max_rps", "7"},
      {"limits.rps", "7", "server.max_rps", "7"},
      {"drr.rate_limit_rps", "7", "server.max_rps", "7"},
      {"server.connection_limit_per_ip", "7", "server.max_conns_per_ip", "7"},
      {"ingress.body_bytes", "4096", "limits.max_body_bytes", "4KiB"},
      {"ingress.decompress_max_ratio", "7", "limits.decoded_ratio", "7"},
      {"limits.decode_ratio_max", "7.5", "limits.decoded_ratio", "7.5"},
      {"limits.decompress_ratio_cap", "7", "limits.decoded_ratio", "7"},
      {"ingress.decompress_abs_bytes", "1048576", "limits.decoded_bytes", "1MiB"},
      {"limits.decode_abs_cap_bytes", "\"2MiB\"", "limits.decoded_bytes", "2MiB"},
      {"read_timeout", "\"7s\"", "timeouts.read", "7s"},
      {"write_timeout", "\"7s\"", "timeouts.write", "7s"},
      {"idle_timeout", "\"7s\"", "timeouts.idle", "7s"},
      {"ingress.timeout_secs", "7", "timeouts.request", "7s"},
      {"timeout_secs", "7", "timeouts.request", "7s"},
      {"drain_deadline", "\"2s\"", "timeouts.drain", "2s"},
      {"work_tx", "7", "queues.work", "7"},
  };
  Service service;
  std::size_t declared = 0;
  for (const Entry& entry : service.schema.entries()) declared += entry.spec.other_names.size();
  EXPECT_EQ(declared, cases.size()) << "a spelling without a case here";
  for (const Case& c : cases) {
    const auto loaded = service.with(c.spelling + " = " + c.value + "\n");
    ASSERT_TRUE(loaded) << format_problems(loaded.error());
    const std::size_t index = service.schema.names().at(c.key).index;
    EXPECT_EQ(format_value((*loaded)->at(index).value, {}), c.effective) << c.spelling;
  }
}

TEST(ServerKeys, weakening_a_safety_default_needs_danger_ok) {
  Service service;
  struct Case {
    std::string key, safe, dangerous;
  };
  for (const Case& c : std::vector<Case>{{"server.max_inflight", "4096", "4097"},
                                         {"server.max_rps", "2000", "2001"},
                                         {"server.max_conns", "16384", "16385"},
                                         {"limits.max_body_bytes", "\"1MiB\"", "1048577"},
                                         {"limits.decoded_bytes", "\"8MiB\"", "\"9MiB\""},
                                         {"limits.decoded_ratio", "10", "10.5"},
                                         {"server.bind", "\"[::1]:80\"", "\"0.0.0.0:80\""},
                                         {"server.metrics_addr", "\"127.0.0.1:80\"", "\"[::]:80\""}}) {
    EXPECT_EQ(service.problems(c.key + " = " + c.safe), "");
    EXPECT_THAT(service.problems(c.key + " = " + c.dangerous), HasSubstr("safety.danger_ok = true")) << c.key;
    EXPECT_EQ(service.problems(c.key + " = " + c.dangerous + "\nsafety.danger_ok = true\n"), "");
  }
}

TEST(ServerKeys, the_edge_may_decode_ten_mebibytes) {
  Service edge({.bind = "127.0.0.1:7440", .decoded_bytes = "10MiB"});
  EXPECT_EQ((*edge.with(""))->get(edge.keys.decoded_bytes), Bytes::mib(10));
  EXPECT_THAT(edge.problems("limits.decoded_bytes = \"11MiB\""), HasSubstr("above 10MiB needs"));
}

TEST(ServerKeys, what_is_not_built_is_refused) {
  Service service;
  for (const char* line :
       {"tracing.endpoint = \"http://x\"", "tracing.sample_ratio = 0.5", "amnesia.enabled = true"})
    EXPECT_THAT(service.problems(line), HasSubstr("this feature is not built yet")) << line;
}

TEST(ServerKeys, tls_needs_a_certificate_and_its_key) {
  Service service;
  EXPECT_THAT(service.problems("tls.enabled = true\ntls.cert = \"/c\""),
              HasSubstr("tls.enabled = true needs tls.cert and tls.key"));
  EXPECT_EQ(service.problems("tls.enabled = true\ntls.cert = \"/c\"\ntls.key = \"/k\""), "");
  EXPECT_THAT(service.problems("tls.certs = [\"/c\"]"), HasSubstr("CERT:KEY"));
  EXPECT_THAT(service.problems("tls.min_version = \"1.1\""), HasSubstr("must be one of 1.2, 1.3"));
}

TEST(ServerKeys, tls_protects_the_service_and_not_the_metrics) {
  Service service;
  const std::string tls = "tls.enabled = true\ntls.cert = \"/c\"\ntls.key = \"/k\"\n";
  EXPECT_EQ(service.problems(tls + "server.bind = \"0.0.0.0:1\""), "");
  EXPECT_THAT(service.problems(tls + "server.metrics_addr = \"0.0.0.0:1\""),
              HasSubstr("needs safety.danger_ok"));
}

TEST(ServerKeys, values_out_of_their_rule_are_refused) {
  Service service;
  for (const char* line :
       {"server.bind = \"localhost\"", "server.bind = \"\"", "server.max_conns = 0", "server.shards = -1",
        "server.memory_bytes = \"1MiB\"", "limits.max_header_bytes = \"1MiB\"", "limits.decoded_ratio = 0.5",
        "timeouts.drain = \"6s\"", "timeouts.drain = \"999ms\"", "timeouts.read = \"0s\"", "queues.work = 0",
        "log.level = \"loud\"", "log.format = \"xml\"", "uds.allow_uids = [\"root\"]",
        "uds.allow_uids = [\"-1\"]"})
    EXPECT_THAT(service.problems(line), HasSubstr("must be")) << line;
  EXPECT_EQ(service.problems("uds.path = \"/run/cairn.sock\"\nuds.allow_uids = [\"0\", \"1000\"]"), "");
  EXPECT_THAT(service.problems("uds.path = \"/" + std::string(107, 'x') + "\""),
              HasSubstr("at most 107 bytes"));
}

TEST(ServerKeys, memory_has_to_cover_the_most_that_its_consumers_may_take) {
  Service service;
  EXPECT_THAT(service.problems("server.memory_bytes = \"64MiB\""),
              AllOf(HasSubstr("must be at least 94MiB"), HasSubstr("server.max_inflight")));
  EXPECT_EQ(service.problems("server.memory_bytes = \"94MiB\""), "");
  // One more consumer, of the service's own.
  const auto cache = service.schema.add<Bytes>({.name = "cache", .default_value = "1MiB", .doc = "A cache."});
  service.schema.add_memory("cache", [cache](const Snapshot& s) { return s.get(cache).count; });
  EXPECT_THAT(service.problems("server.memory_bytes = \"94MiB\""), HasSubstr("at least 95MiB"));
  EXPECT_THAT(service.problems("cache = \"8GiB\""), HasSubstr("must be at least 8286MiB"));
}

TEST(ServerKeys, reload_classes_are_those_of_the_specification) {
  Service service;
  std::vector<std::string> restart;
  for (const Entry& entry : service.schema.entries())
    if (entry.spec.reload == Reload::restart) restart.push_back(entry.spec.name);
  EXPECT_THAT(restart,
              ElementsAre("server.metrics_addr", "server.shards", "server.memory_bytes", "tls.enabled",
                          "tls.ca", "uds.path", "queues.work", "log.format", "amnesia.enabled"));
}

TEST(ServerKeys, who_is_trusted_is_a_network_or_the_socket) {
  Service service;
  EXPECT_EQ(service.problems("server.trusted = [\"10.0.0.0/8\", \"2001:db8::/32\", \"unix\"]"), "");
  for (const char* wrong : {"10.0.0.1", "10.0.0.1/8", "10.0.0.0/33", "example.org", ""})
    EXPECT_THAT(service.problems(std::string("server.trusted = [\"") + wrong + "\"]"), HasSubstr("networks"))
        << wrong;
}

TEST(ServerKeys, services_of_one_process_share_its_shards_and_its_log) {
  Service storage({.bind = "127.0.0.1:7430", .alone = false});
  Service index({.bind = "127.0.0.1:7420", .alone = false});
  Schema process;
  const ProcessKeys keys = declare_process_keys(process, {});
  const std::vector<Section> sections{{"", &process}, {"storage", &storage.schema}, {"index", &index.schema}};
  Sources sources;
  sources.file = File{"c.toml", "shards = 3\nlog.level = \"warn\"\n[storage.server]\nmax_conns = 7\n"};
  const auto loaded = load(sections, sources);
  ASSERT_TRUE(loaded) << format_problems(loaded.error());
  EXPECT_EQ((*loaded)[0]->get(keys.shards), 3);
  EXPECT_EQ((*loaded)[0]->get(keys.log_level), LogLevel::warn);
  EXPECT_EQ((*loaded)[1]->get(storage.keys.max_conns), 7);
  EXPECT_EQ((*loaded)[2]->get(index.keys.max_conns), 1024);
  for (const char* line :
       {"storage.log.level = \"warn\"", "storage.server.shards = 1", "server.shards = 1"}) {
    sources.file->text = line;
    const auto refused = load(sections, sources);
    ASSERT_FALSE(refused) << line;
    EXPECT_THAT(format_problems(refused.error()), HasSubstr("unknown key")) << line;
  }
}

TEST(ServerKeys, reading_may_need_a_capability) {
  Service service;
  const auto loaded = service.with("auth.reads = \"required\"");
  ASSERT_TRUE(loaded);
  EXPECT_EQ((*loaded)->get(*service.keys.auth_reads), ReadAccess::required);
}

TEST(ServerKeys, a_service_adds_queues_pools_and_peers) {
  Service service({.queues = {{"work", 512}, {"sched", 256}}, .pools = {{"cpu", 2}}});
  const auto sched = service.keys.queues.at(1).second;
  const auto cpu = service.keys.process.pools.at(0).second;
  const auto index = declare_peer_key(service.schema, "index", "127.0.0.1:7420");
  const auto loaded = service.with("sched_tx = 9\n[pools]\ncpu = 3\n[peers]\nindex = \"\"\n");
  ASSERT_TRUE(loaded) << format_problems(loaded.error());
  EXPECT_EQ((*loaded)->get(sched), 9);
  EXPECT_EQ((*loaded)->get(cpu), 3);
  EXPECT_EQ((*loaded)->get(index), "");
}

}  // namespace
}  // namespace cairn::config
