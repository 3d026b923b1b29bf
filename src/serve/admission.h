// Admission: the process-wide limits, asked by every shard before any work is done.
//   Never more than max_conns connections have a place, and never more than max_conns_per_ip from one
//         address (IPv6: from one /64), beyond the 16 of each door that are kept for health.
//   Never more than max_inflight requests between admission and their answer.
//   A Unix peer is of our own user or of one that uds.allow_uids names.
//   A place kept for health is taken by a head that names a health route, never by silence.
//   At the cap, who gives way is of the address that has the most; at the cap of an address, of this
//   one.
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

  // May this peer connect at all?
  bool is_allowed(const io::PeerAddress& peer);
  // A place within the caps, until disconnect().
  bool try_connect(const io::PeerAddress& peer);
  void disconnect(const io::PeerAddress& peer);
  // One of the places that are kept for health at this door.
  enum class Door : std::uint8_t { open, health, local };
  Result<PermitHold> try_reserve(Door door) noexcept {
    return reserved_[static_cast<std::size_t>(door)].try_hold();
  }

  // What counts as one address. All Unix peers are one, without a cap.
  struct AddressKey {
    std::array<std::uint64_t, 2> words;
    friend bool operator==(const AddressKey&, const AddressKey&) = default;
  };
  static AddressKey key_of(const io::PeerAddress& peer) noexcept;
  // Of which address a connection is to give way, so that `peer` can connect.
  AddressKey who_gives_way(const io::PeerAddress& peer);

  Permits inflight;
  RateLimiter rate;
  const Permits& connections() const noexcept { return connections_; }

 private:
  struct AddressHash {
    std::size_t operator()(const AddressKey& key) const noexcept;
  };
  using Counts = std::unordered_map<AddressKey, std::uint64_t, AddressHash>;
  static constexpr unsigned rank = 10;
  static constexpr std::size_t stripes = 16;

  bool count_address(const io::PeerAddress& peer);
  void uncount_address(const io::PeerAddress& peer);

  Permits connections_;
  std::array<Permits, 3> reserved_;  // by door
  std::atomic<std::uint64_t> per_address_;
  std::array<Guarded<Counts, rank>, stripes> addresses_;
  Guarded<std::vector<std::uint32_t>, rank> allow_uids_;
};

}  // namespace cairn::serve
