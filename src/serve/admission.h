// Admission: the process-wide limits, asked by every shard before any work is done.
//   [AD-1] At most max_conns connections have a place, and at most max_conns_per_ip from one address (IPv6:
//         from one /64). The 16 places that each door keeps for health come on top.
//   [AD-2] At most max_inflight requests are between admission and their answer, plus the eighth beyond it
//         that Shares keeps for addresses that have little.
//   [AD-3] A Unix peer is of our own user or of one that uds.allow_uids names.
//   [AD-4] A place kept for health is taken by a head that names a health route, never by silence.
//   [AD-5] At max_conns, a connection of the address that has the most gives way; at the cap of one address,
//         a connection of that address.
//   [AD-6] While another address asks too, an address has half of the requests in flight and of the rate
//         (Shares). Peers in server.trusted have no share of one address.
// A shard decides by itself. Each count that spans shards is one atomic. Per-address counts are in striped
// tables, which are touched when a connection comes and goes, not per request.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "runtime/guarded.h"
#include "runtime/permits.h"
#include "runtime/rate.h"
#include "serve/locks.h"
#include "serve/settings.h"
#include "serve/shares.h"

namespace cairn::serve {

class Admission {
 public:
  static constexpr std::uint64_t reserved_connections = 16;

  explicit Admission(const Settings& settings);

  void apply(const Settings& settings) noexcept;  // live

  // May this peer connect at all?
  bool is_allowed(const io::PeerAddress& peer);
  // A place within the caps, until disconnect(). `has_share`: the cap of one address applies too.
  bool try_connect(const io::PeerAddress& peer, bool has_share = true);
  void disconnect(const io::PeerAddress& peer);
  // One of the places that are kept for health at this door.
  enum class Door : std::uint8_t { open, health, local };
  Result<PermitHold> try_reserve(Door door) noexcept {
    return reserved_[static_cast<std::size_t>(door)].try_hold();
  }

  // The key under which peers count as one address. All Unix peers are one, without a cap.
  struct AddressKey {
    std::array<std::uint64_t, 2> words;
    friend bool operator==(const AddressKey&, const AddressKey&) = default;
  };
  static AddressKey key_of(const io::PeerAddress& peer) noexcept;
  // The address of which a connection has to give way, so that `peer` can connect.
  AddressKey who_gives_way(const io::PeerAddress& peer);

  // A request of this peer arrived. The asker's slot is used until leave(). `has_share`: the peer is not
  // trusted.
  Shares::Asker ask(const io::PeerAddress& peer, bool has_share, Instant now) noexcept {
    return has_share ? shares_.ask(key_of(peer).words, now) : Shares::Asker{};
  }
  bool try_enter(const Shares::Asker& asker) noexcept { return shares_.try_enter(asker, inflight); }
  void leave(std::uint32_t slot) noexcept { shares_.leave(slot, inflight); }
  RateVerdict try_take(const Shares::Asker& asker, Instant now) noexcept {
    return shares_.try_take(asker, rate, now);
  }
  // Before the first ask().
  void set_seed(std::uint64_t seed) noexcept { shares_.set_seed(seed); }

  Permits inflight;
  RateLimiter rate;
  const Permits& connections() const noexcept { return connections_; }

 private:
  struct AddressHash {
    std::size_t operator()(const AddressKey& key) const noexcept;
  };
  using Counts = std::unordered_map<AddressKey, std::uint64_t, AddressHash>;
  static constexpr std::size_t stripes = 16;

  bool count_address(const io::PeerAddress& peer, bool has_share);
  void uncount_address(const io::PeerAddress& peer);

  Shares shares_;
  Permits connections_;
  std::array<Permits, 3> reserved_;  // by door
  std::atomic<std::uint64_t> per_address_;
  std::array<Guarded<Counts, addresses_lock.rank>, stripes> addresses_;
  Guarded<std::vector<std::uint32_t>, addresses_lock.rank> allow_uids_;
};

}  // namespace cairn::serve
