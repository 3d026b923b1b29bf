// The keys that every service has, declared once: the same key means the same thing in all five.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/key.h"
#include "config/schema.h"

namespace cairn::config {

enum class ReadAccess : std::uint8_t { open, required };  // "public" in the text
enum class LogFormat : std::uint8_t { json, text };
enum class LowestTls : std::uint8_t { tls12, tls13 };  // "1.2", "1.3"
enum class LogLevel : std::uint8_t { debug, info, warn, error };

// A queue's capacity, or the threads of a pool.
struct Sized {
  std::string name;
  std::int64_t size;
};
// Their keys, `queues.NAME` or `pools.NAME`, by name.
using SizeKeys = std::vector<std::pair<std::string, Key<std::int64_t>>>;

// The defaults in which services differ.
struct ServerDefaults {
  std::string bind = "127.0.0.1:0";
  std::string decoded_bytes = "8MiB";  // values above this, or above 8 MiB if that is larger, need danger_ok
  std::string request_timeout = "5s";
  std::string memory_bytes = "1GiB";
  std::string uds_path = "";  // empty: none
  bool amnesia = false;       // whether the service can run without a disk
  bool http2 = false;         // whether the service speaks HTTP/2, to peers that agree on it in TLS
  bool reads = true;          // false: it reads nothing of its own, so that `auth.reads` would say nothing
  // As the service's topology declares them.
  std::vector<Sized> queues = {};
  std::vector<Sized> pools = {};
  bool alone = true;  // false: one of several services of a process, which has its ProcessKeys elsewhere
};

// The keys of the process, not of one of its services. A service alone has them among its own keys
// (`server.shards`, `log.format`, `log.level`). Services that share a process share one of each.
struct ProcessKeys {
  Key<std::int64_t> shards;  // 0: one per core
  Key<LogFormat> log_format;
  Key<LogLevel> log_level;
  SizeKeys pools;
};

struct Http2Keys {
  Key<std::int64_t> max_streams, max_running;
};

struct ServerKeys {
  Key<std::string> bind;
  Key<std::vector<std::string>> names;
  Key<std::vector<std::string>> trusted;
  Key<std::string> metrics_addr;  // empty: on the same listener
  Key<std::int64_t> max_conns;
  Key<std::int64_t> max_inflight;
  Key<std::int64_t> max_rps;
  Key<std::int64_t> max_conns_per_ip;
  Key<Bytes> memory_bytes;
  ProcessKeys process;  // of a service alone

  Key<Bytes> max_body_bytes;
  Key<double> decoded_ratio;
  Key<Bytes> decoded_bytes;
  Key<Bytes> max_header_bytes;

  Key<Duration> read_timeout;
  Key<Duration> write_timeout;
  Key<Duration> idle_timeout;
  Key<Duration> request_timeout;
  Key<Duration> drain_timeout;

  Key<bool> tls_enabled;
  Key<std::string> tls_cert;
  Key<std::string> tls_key;
  Key<std::vector<std::string>> tls_certs;  // more, each split_pair() of its files
  Key<std::string> tls_ocsp;                // empty: none
  Key<LowestTls> tls_lowest;
  Key<Duration> tls_hsts;   // zero: no such field
  Key<std::string> tls_ca;  // for peers; empty: the system's
  std::optional<Http2Keys> http2;
  Key<std::string> uds_path;  // empty: none
  Key<std::vector<std::string>> uds_allow_uids;

  std::optional<Key<ReadAccess>> auth_reads;
  Key<std::vector<std::string>> cors_origins;
  SizeKeys queues;
  Key<std::string> tracing_endpoint;
  Key<double> tracing_sample_ratio;
  Key<bool> amnesia;
  Key<bool> danger_ok;
};

// Adds the shared keys and their rules. A service adds its own before or after.
ServerKeys declare_server_keys(Schema& schema, const ServerDefaults& defaults);
// `shards`, `log.format`, `log.level` and the pools, outside of every service's table.
ProcessKeys declare_process_keys(Schema& schema, const std::vector<Sized>& pools);

// The files of an entry of tls.certs, `CERT:KEY`. Nothing: it is no such entry.
std::optional<std::pair<std::string, std::string>> split_pair(const std::string& entry);

// A service declares one for each peer; `name` is without its table. The value is HOST:PORT,
// https://HOST:PORT or unix:PATH, or empty for none. `built`: false while no such service is built.
Key<std::string> declare_peer_key(Schema& schema, const std::string& name, const std::string& address,
                                  bool built = true);

}  // namespace cairn::config
