#include "config/server_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/check.h"
#include "base/endpoint.h"
#include "base/network.h"
#include "config/snapshot.h"

namespace cairn::config {
namespace {

Check endpoint_check(bool may_be_empty) {
  return {may_be_empty ? "HOST:PORT or empty" : "HOST:PORT", [=](const Value& value) {
            const auto& text = std::get<std::string>(value);
            const auto endpoint = parse_endpoint(text);
            return (may_be_empty && text.empty()) || (endpoint && endpoint->path.empty());
          }};
}

Check peer_check() {
  return {"HOST:PORT, https://HOST:PORT, unix:PATH or empty", [](const Value& value) {
            const auto& text = std::get<std::string>(value);
            return text.empty() || parse_peer(text).has_value();
          }};
}

Check pair_list_check() {
  return {"pairs of files: CERT:KEY", [](const Value& value) {
            return std::ranges::all_of(
                std::get<std::vector<std::string>>(value),
                [](const std::string& entry) { return split_pair(entry).has_value(); });
          }};
}

Check socket_path_check() {
  constexpr std::size_t longest = 107;  // the path's room in sockaddr_un, without its terminator
  return {"at most 107 bytes",
          [](const Value& value) { return std::get<std::string>(value).size() <= longest; }};
}

Check uid_list_check() {
  return {"numeric user ids", [](const Value& value) {
            return std::ranges::all_of(
                std::get<std::vector<std::string>>(value), [](const std::string& text) {
                  std::uint32_t uid = 0;
                  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), uid);
                  return problem == std::errc{} && end == text.data() + text.size();
                });
          }};
}

Check name_list_check() {
  return {"host names or addresses without a port", [](const Value& value) {
            return std::ranges::all_of(
                std::get<std::vector<std::string>>(value), [](const std::string& name) {
                  const bool six = name.contains(':');
                  const auto as_endpoint = parse_endpoint(six ? "[" + name + "]:1" : name + ":1");
                  return as_endpoint && as_endpoint->path.empty();
                });
          }};
}

Check peer_list_check() {
  return {"networks (10.0.0.0/8, 2001:db8::/32) or `unix`", [](const Value& value) {
            return std::ranges::all_of(std::get<std::vector<std::string>>(value),
                                       [](const std::string& text) {
                                         const auto network = parse_network(text);
                                         return text == "unix" || (network && !network->has_host_bits());
                                       });
          }};
}

Check origin_list_check() {
  return {
      "origins: SCHEME://HOST or SCHEME://HOST:PORT, or HOST[:PORT] for any scheme", [](const Value& value) {
        return std::ranges::all_of(std::get<std::vector<std::string>>(value), [](const std::string& origin) {
          const std::size_t scheme = origin.find("://");
          const std::string host = scheme == origin.npos ? origin : origin.substr(scheme + 3);
          return scheme != 0 && !host.empty() && host.find_first_of("/ \t?#@") == host.npos;
        });
      }};
}

Key<std::int64_t> declare_shards(Schema& schema, std::string name) {
  return schema.add<std::int64_t>({.name = std::move(name),
                                   .default_value = "0",
                                   .doc = "Event loops; 0 means one per core.",
                                   .reload = Reload::restart,
                                   .min = "0",
                                   .max = "256"});
}

void declare_log_table(Schema& schema, ProcessKeys& keys) {
  keys.log_format = schema.add<LogFormat>({.name = "log.format",
                                           .default_value = "json",
                                           .doc = "One JSON object a line, or text for people.",
                                           .reload = Reload::restart,
                                           .choices = {"json", "text"}});
  keys.log_level = schema.add<LogLevel>({.name = "log.level",
                                         .default_value = "info",
                                         .doc = "The least that is logged.",
                                         .choices = {"debug", "info", "warn", "error"}});
}

void declare_server_table(Schema& schema, const ServerDefaults& defaults, ServerKeys& keys) {
  keys.bind = schema.add<std::string>({.name = "server.bind",
                                       .default_value = defaults.bind,
                                       .doc = "Where the service listens. Other than loopback needs TLS or "
                                              "safety.danger_ok.",
                                       .check = endpoint_check(false)});
  keys.names = schema.add<std::vector<std::string>>(
      {.name = "server.names",
       .default_value = "",
       .doc =
           "Host names it answers to, without ports, beside loopback names and its own address; any other is "
           "421 misdirected. Empty: no more than these on loopback, any elsewhere.",
       .check = name_list_check()});
  keys.trusted = schema.add<std::vector<std::string>>(
      {.name = "server.trusted",
       .default_value = "",
       .doc =
           "Networks, and `unix`, whose peers speak for many clients: none is held to one address's share of "
           "connections, requests and bodies. Their `Forwarded` says who asks.",
       .other_names = {{"proxy.trusted"}},
       .check = peer_list_check()});
  keys.metrics_addr =
      schema.add<std::string>({.name = "server.metrics_addr",
                               .default_value = "",
                               .doc = "A listener of its own for health and metrics; empty: the "
                                      "service's listener serves them.",
                               .reload = Reload::restart,
                               .check = endpoint_check(true)});
  keys.max_conns = schema.add<std::int64_t>({.name = "server.max_conns",
                                             .default_value = "1024",
                                             .doc = "Open connections.",
                                             .min = "1",
                                             .max = "1048576",
                                             .other_names = {{"max_conns"}},
                                             .danger_above = "16384"});
  keys.max_inflight =
      schema.add<std::int64_t>({.name = "server.max_inflight",
                                .default_value = "512",
                                .doc = "Requests being worked on; beyond it 429 busy. While others ask, one "
                                       "address has half of them; an eighth more is for who has less.",
                                .min = "1",
                                .max = "1048576",
                                .other_names = {{"ingress.max_inflight"}, {"limits.inflight"}},
                                .danger_above = "4096"});
  keys.max_rps = schema.add<std::int64_t>(
      {.name = "server.max_rps",
       .default_value = "500",
       .doc = "Requests per second, with a burst of one second; beyond it 429 quota. While others ask, one "
              "address has half of them; of the burst, an eighth more is for who has less.",
       .min = "1",
       .max = "10000000",
       .other_names = {{"ingress.rps_limit"}, {"limits.rps"}, {"drr.rate_limit_rps"}},
       .danger_above = "2000"});
  keys.max_conns_per_ip = schema.add<std::int64_t>({.name = "server.max_conns_per_ip",
                                                    .default_value = "256",
                                                    .doc = "Open connections of one client address.",
                                                    .min = "1",
                                                    .max = "1048576",
                                                    .other_names = {{"server.connection_limit_per_ip"}}});
  if (defaults.alone) keys.process.shards = declare_shards(schema, "server.shards");
  keys.memory_bytes =
      schema.add<Bytes>({.name = "server.memory_bytes",
                         .default_value = defaults.memory_bytes,
                         .doc = "Memory divided among buffers, caches and decoders; it has to "
                                "cover the most that all of them may take.",
                         .reload = Reload::restart,
                         .min = "64MiB"});
}

void declare_limits_table(Schema& schema, const ServerDefaults& defaults, ServerKeys& keys) {
  keys.max_body_bytes = schema.add<Bytes>({.name = "limits.max_body_bytes",
                                           .default_value = "1MiB",
                                           .doc = "Largest request body as sent.",
                                           .min = "1B",
                                           .max = "64GiB",
                                           .other_names = {{"ingress.body_bytes"}},
                                           .danger_above = "1MiB"});
  keys.decoded_ratio = schema.add<double>({.name = "limits.decoded_ratio",
                                           .default_value = "10",
                                           .doc = "Largest expansion of a compressed body.",
                                           .min = "1",
                                           .max = "1000",
                                           .other_names = {{"ingress.decompress_max_ratio"},
                                                           {"limits.decode_ratio_max"},
                                                           {"limits.decompress_ratio_cap"}},
                                           .danger_above = "10"});
  const auto wanted = parse_bytes(defaults.decoded_bytes);
  CHECK(wanted.has_value());
  keys.decoded_bytes =
      schema.add<Bytes>({.name = "limits.decoded_bytes",
                         .default_value = defaults.decoded_bytes,
                         .doc = "Largest body after decompression.",
                         .min = "1B",
                         .max = "64GiB",
                         .other_names = {{"ingress.decompress_abs_bytes"}, {"limits.decode_abs_cap_bytes"}},
                         .danger_above = format_bytes(std::max(*wanted, Bytes::mib(8)))});
  keys.max_header_bytes = schema.add<Bytes>({.name = "limits.max_header_bytes",
                                             .default_value = "32KiB",
                                             .doc = "Largest request head.",
                                             .min = "1KiB",
                                             .max = "63KiB"});
}

void declare_timeouts_table(Schema& schema, const ServerDefaults& defaults, ServerKeys& keys) {
  const auto timeout = [&](std::string name, std::string value, std::string doc,
                           std::vector<OtherName> others) {
    return schema.add<Duration>({.name = "timeouts." + name,
                                 .default_value = std::move(value),
                                 .doc = std::move(doc),
                                 .min = "10ms",
                                 .max = "1h",
                                 .other_names = std::move(others)});
  };
  keys.read_timeout =
      timeout("read", "5s", "A head must be complete, and a body make progress, within this time.",
              {{"read_timeout"}});
  keys.write_timeout =
      timeout("write", "5s", "An answer must be taken at 1 KiB/s or more, averaged over this time.",
              {{"write_timeout"}});
  keys.idle_timeout =
      timeout("idle", "60s", "A connection without a request is closed after this time.", {{"idle_timeout"}});
  keys.request_timeout =
      timeout("request", defaults.request_timeout,
              "The deadline from the parsed head to the response head; a client can only shorten it.",
              {{"ingress.timeout_secs", Unit::seconds}, {"timeout_secs", Unit::seconds}});
  keys.drain_timeout =
      schema.add<Duration>({.name = "timeouts.drain",
                            .default_value = "3s",
                            .doc = "How long a shutdown lets work finish before it aborts it.",
                            .min = "1s",
                            .max = "5s",
                            .other_names = {{"drain_deadline"}}});
}

void declare_tls_table(Schema& schema, ServerKeys& keys) {
  keys.tls_enabled = schema.add<bool>({.name = "tls.enabled",
                                       .default_value = "false",
                                       .doc = "Speak TLS, and nothing else, on server.bind.",
                                       .reload = Reload::restart});
  keys.tls_cert = schema.add<std::string>({.name = "tls.cert",
                                           .default_value = "",
                                           .doc = "Certificate chain, a PEM file; read again at a reload."});
  keys.tls_key = schema.add<std::string>({.name = "tls.key",
                                          .default_value = "",
                                          .doc = "Private key, a PEM file that only its owner can read."});
  keys.tls_certs = schema.add<std::vector<std::string>>(
      {.name = "tls.certs",
       .default_value = "",
       .doc = "More certificates, as CERT:KEY. A client is shown the one that has the name it asks for; "
              "tls.cert if none has.",
       .check = pair_list_check()});
  keys.tls_ocsp = schema.add<std::string>(
      {.name = "tls.ocsp",
       .default_value = "",
       .doc = "OCSP answer for tls.cert, a DER file that is stapled; read again at a reload. Empty: none."});
  keys.tls_lowest = schema.add<LowestTls>(
      {.name = "tls.min_version",
       .default_value = "1.3",
       .doc = "The lowest version that is spoken. 1.2 has forward-secret AEAD suites only.",
       .choices = {"1.2", "1.3"}});
  keys.tls_hsts = schema.add<Duration>(
      {.name = "tls.hsts",
       .default_value = "0s",
       .doc =
           "Tells browsers, over TLS, to come back over TLS only for this long (Strict-Transport-Security). "
           "0s: nothing is told.",
       .min = "0s",
       .max = "17520h"});
  keys.tls_ca = schema.add<std::string>({.name = "tls.ca",
                                         .default_value = "",
                                         .doc = "Authorities that vouch for peers at https://, a PEM file. "
                                                "Empty: those of the system.",
                                         .reload = Reload::restart});
}

Http2Keys declare_http2(Schema& schema) {
  Http2Keys keys;
  keys.max_streams = schema.add<std::int64_t>({.name = "h2.max_streams",
                                               .default_value = "100",
                                               .doc = "Requests of one HTTP/2 connection at a time.",
                                               .min = "1",
                                               .max = "1024"});
  keys.max_running = schema.add<std::int64_t>({.name = "h2.max_running",
                                               .default_value = "32",
                                               .doc = "Of these, how many are worked on at once.",
                                               .min = "1",
                                               .max = "1024"});
  return keys;
}

void declare_planes(Schema& schema, const ServerDefaults& defaults, ServerKeys& keys) {
  declare_tls_table(schema, keys);
  if (defaults.http2) keys.http2 = declare_http2(schema);
  keys.uds_path = schema.add<std::string>({.name = "uds.path",
                                           .default_value = defaults.uds_path,
                                           .doc = "Also listen on this Unix socket; empty: none.",
                                           .reload = Reload::restart,
                                           .check = socket_path_check()});
  keys.uds_allow_uids = schema.add<std::vector<std::string>>(
      {.name = "uds.allow_uids",
       .default_value = "",
       .doc = "Users that may use the Unix socket, beside the service's own, which "
              "always may. Its modes hold as well: 0600 in "
              "a directory of 0700, which root alone passes.",
       .check = uid_list_check()});
}

// Each queue's key has a second name: that of its sending end.
Key<std::int64_t> declare_queue_key(Schema& schema, const Sized& queue) {
  return schema.add<std::int64_t>({.name = "queues." + queue.name,
                                   .default_value = std::to_string(queue.size),
                                   .doc = fmt::format("Capacity of the queue `{}`.", queue.name),
                                   .reload = Reload::restart,
                                   .min = "1",
                                   .max = "65536",
                                   .other_names = {{queue.name + "_tx"}}});
}

void declare_pools(Schema& schema, const std::vector<Sized>& pools, ProcessKeys& keys) {
  for (const Sized& pool : pools)
    keys.pools.emplace_back(
        pool.name, schema.add<std::int64_t>(
                       {.name = "pools." + pool.name,
                        .default_value = std::to_string(pool.size),
                        .doc = fmt::format("Threads of the lane `{}` of the process's pool.", pool.name),
                        .reload = Reload::restart,
                        .min = "1",
                        .max = "256"}));
}

void declare_the_rest(Schema& schema, const ServerDefaults& defaults, ServerKeys& keys) {
  if (defaults.reads)
    keys.auth_reads = schema.add<ReadAccess>({.name = "auth.reads",
                                              .default_value = "public",
                                              .doc = "Whether reading needs a capability.",
                                              .choices = {"public", "required"}});
  keys.cors_origins = schema.add<std::vector<std::string>>(
      {.name = "cors.origins",
       .default_value = "",
       .doc = "Pages of other origins that may send requests that change something; any other is 403.",
       .check = origin_list_check()});
  for (const Sized& queue : defaults.queues)
    keys.queues.emplace_back(queue.name, declare_queue_key(schema, queue));
  if (defaults.alone) {
    declare_log_table(schema, keys.process);
    declare_pools(schema, defaults.pools, keys.process);
  }
  keys.tracing_endpoint = schema.add<std::string>({.name = "tracing.endpoint",
                                                   .default_value = "",
                                                   .doc = "Where spans are sent (OTLP over HTTP).",
                                                   .built = false});
  keys.tracing_sample_ratio = schema.add<double>({.name = "tracing.sample_ratio",
                                                  .default_value = "0",
                                                  .doc = "The part of traces started here that is sent.",
                                                  .min = "0",
                                                  .max = "1",
                                                  .built = false});
  keys.amnesia = schema.add<bool>({.name = "amnesia.enabled",
                                   .default_value = "false",
                                   .doc = "Keep everything in memory and write nothing to disk, ever.",
                                   .reload = Reload::restart,
                                   .built = defaults.amnesia});
  keys.danger_ok = schema.add<bool>({.name = "safety.danger_ok",
                                     .default_value = "false",
                                     .doc = "Permit values that weaken a safety default."});
}

void declare_rules(Schema& schema, const ServerKeys& keys) {
  schema.set_danger_key(keys.danger_ok);
  // TLS is spoken on server.bind only.
  const auto exposed = [keys](Key<std::string> key, bool encrypts) {
    return [keys, key, encrypts](const Snapshot& snapshot) -> std::optional<std::string> {
      const auto endpoint = parse_endpoint(snapshot.get(key));
      if (!endpoint || endpoint->is_loopback() || snapshot.get(keys.danger_ok)) return std::nullopt;
      if (!encrypts) return "an address that is not loopback needs safety.danger_ok = true";
      if (snapshot.get(keys.tls_enabled)) return std::nullopt;
      return "an address that is not loopback needs TLS or safety.danger_ok = true";
    };
  };
  schema.add_rule(
      keys.tls_cert, "tls_has_its_files", [keys](const Snapshot& snapshot) -> std::optional<std::string> {
        const bool both = !snapshot.get(keys.tls_cert).empty() && !snapshot.get(keys.tls_key).empty();
        if (!snapshot.get(keys.tls_enabled) || both) return std::nullopt;
        return "tls.enabled = true needs tls.cert and tls.key";
      });
  schema.add_memory("18 KiB for each of server.max_conns with TLS", [keys](const Snapshot& snapshot) {
    const bool encrypts = snapshot.get(keys.tls_enabled);
    return encrypts ? static_cast<std::uint64_t>(snapshot.get(keys.max_conns)) * 18 * 1024 : 0;
  });
  // The most memory of one connection (frames and stream) and of one request in flight (input, chunk and
  // output blocks with a decoder's window), and an eighth more requests for addresses that have less than
  // their share.
  schema.add_memory("4 KiB for each of server.max_conns", [keys](const Snapshot& snapshot) {
    return static_cast<std::uint64_t>(snapshot.get(keys.max_conns)) * 4096;
  });
  schema.add_memory("180 KiB for each of server.max_inflight", [keys](const Snapshot& snapshot) {
    return static_cast<std::uint64_t>(snapshot.get(keys.max_inflight)) * 180 * 1024;
  });
  schema.add_rule(keys.memory_bytes, "memory_covers_its_consumers",
                  [keys](const Snapshot& snapshot) -> std::optional<std::string> {
                    std::uint64_t needed = 0;
                    std::string names;
                    for (const MemoryUse& use : snapshot.schema().memory()) {
                      needed += use.bytes(snapshot);
                      names += (names.empty() ? ": " : ", ") + use.name;
                    }
                    if (needed <= snapshot.get(keys.memory_bytes).count) return std::nullopt;
                    return "must be at least " + format_bytes({needed}) + names;
                  });
  schema.add_rule(keys.uds_path, "an_amnesic_service_has_no_socket",
                  [keys](const Snapshot& snapshot) -> std::optional<std::string> {
                    const bool asked = snapshot.at(keys.uds_path.index).origin.kind != Origin::Kind::preset;
                    if (!snapshot.get(keys.amnesia) || snapshot.get(keys.uds_path).empty() || !asked)
                      return std::nullopt;
                    return "a Unix socket is a file, and amnesia.enabled leaves none: leave it empty";
                  });
  schema.add_rule(keys.bind, "bind_is_loopback", exposed(keys.bind, true));
  schema.add_rule(keys.metrics_addr, "metrics_addr_is_loopback", exposed(keys.metrics_addr, false));
}

}  // namespace

ServerKeys declare_server_keys(Schema& schema, const ServerDefaults& defaults) {
  ServerKeys keys;
  declare_server_table(schema, defaults, keys);
  declare_limits_table(schema, defaults, keys);
  declare_timeouts_table(schema, defaults, keys);
  declare_planes(schema, defaults, keys);
  declare_the_rest(schema, defaults, keys);
  declare_rules(schema, keys);
  return keys;
}

ProcessKeys declare_process_keys(Schema& schema, const std::vector<Sized>& pools) {
  ProcessKeys keys;
  keys.shards = declare_shards(schema, "shards");
  declare_log_table(schema, keys);
  declare_pools(schema, pools, keys);
  return keys;
}

Key<std::string> declare_peer_key(Schema& schema, const std::string& name, const std::string& address,
                                  bool built) {
  return schema.add<std::string>(
      {.name = "peers." + name,
       .default_value = address,
       .doc = fmt::format("Where the {} service is, HOST:PORT, https://HOST:PORT or "
                          "unix:PATH; empty: none, or in the same process.",
                          name),
       .reload = Reload::restart,
       .other_names = {{"upstream." + name}},
       .check = peer_check(),
       .built = built});
}

std::optional<std::pair<std::string, std::string>> split_pair(const std::string& entry) {
  const std::size_t colon = entry.find(':');
  if (colon == 0 || colon == entry.npos || colon + 1 == entry.size()) return std::nullopt;
  return std::pair(entry.substr(0, colon), entry.substr(colon + 1));
}

}  // namespace cairn::config
