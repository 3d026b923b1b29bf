// Settings: the shared configuration keys of one snapshot, read once per load and then only copied.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/network.h"
#include "codec/decode_guard.h"
#include "config/server_keys.h"
#include "config/snapshot.h"
#include "http/h1/server.h"

namespace cairn::serve {

struct Settings {
  std::uint64_t max_conns, max_conns_per_ip, max_inflight, max_rps;
  std::uint64_t max_body;
  bool reads_need_capability;
  std::vector<std::uint32_t> allow_uids;  // of Unix peers, beside our own
  std::vector<IpNetwork> trusted;         // networks whose peers have no share of one address
  bool trust_local;                       // Unix peers are trusted too
  std::vector<std::string> names;         // the host names that the service answers to
  std::string bound;                      // the host of server.bind
  std::vector<std::string> origins;       // the origins of pages that may change something
  codec::DecodeGuard decode;
  Duration request_timeout, drain_timeout;
  http::ServerOptions server;

  bool trusts(const io::PeerAddress& peer) const noexcept;
};

Settings read_settings(const config::Snapshot& snapshot, const config::ServerKeys& keys);

}  // namespace cairn::serve
