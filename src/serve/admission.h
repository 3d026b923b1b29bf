// Admission: the process-wide limits, asked by every shard before any work is done.
//   Never more than max_conns connections, and never more than max_conns_per_ip from one address,
//         beyond the 16 that are kept for health.
//   Never more than max_inflight requests between admission and their answer.
//   A Unix peer is of our own user or of one that uds.allow_uids names.
// Work is shard-local; what counts across shards is one atomic each, and per-address counts sit in striped
// tables that are touched when a connection comes and goes, not per request.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "http/exchange.h"
#include "runtime/guarded.h"
#include "runtime/permits.h"
#include "runtime/rate.h"
#include "serve/settings.h"

namespace cairn::serve {

class Admission {
 public:
  static constexpr std::uint64_t reserved_connections = 16;

  explicit Admission(const Settings& settings);

  void apply(const Settings& settings) noexcept;  // live

  http::Handler::Admission connect(const io::PeerAddress& peer);
  // On the listener that serves health only.
  http::Handler::Admission connect_for_health();
  void disconnect(const io::PeerAddress& peer, http::Handler::Admission admission);

  Permits inflight;
  RateLimiter rate;
  const Permits& connections() const noexcept { return connections_; }

 private:
  struct AddressKey {
    std::array<std::uint64_t, 2> words;
    friend bool operator==(const AddressKey&, const AddressKey&) = default;
  };
  struct AddressHash {
    std::size_t operator()(const AddressKey& key) const noexcept;
  };
  using Counts = std::unordered_map<AddressKey, std::uint64_t, AddressHash>;
  static constexpr unsigned rank = 10;
  static constexpr std::size_t stripes = 16;

  bool is_allowed(const io::PeerAddress& local_peer);
  static AddressKey key_of(const io::PeerAddress& peer) noexcept;
  bool count_address(const io::PeerAddress& peer);
  void uncount_address(const io::PeerAddress& peer);

  Permits connections_;
  Permits reserved_;
  std::atomic<std::uint64_t> per_address_;
  std::array<Guarded<Counts, rank>, stripes> addresses_;
  Guarded<std::vector<std::uint32_t>, rank> allow_uids_;
};

}  // namespace cairn::serve
