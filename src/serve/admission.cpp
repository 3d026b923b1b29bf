#include "serve/admission.h"

#include <algorithm>
#include <cstring>

namespace cairn::serve {

Admission::Admission(const Settings& settings)
    : inflight(settings.max_inflight),
      rate(settings.max_rps),
      connections_(settings.max_conns),
      reserved_{Permits(reserved_connections), Permits(reserved_connections), Permits(reserved_connections)},
      per_address_(settings.max_conns_per_ip),
      allow_uids_(settings.allow_uids) {}

void Admission::apply(const Settings& settings) noexcept {
  inflight.set_limit(settings.max_inflight);
  rate.set_rate(settings.max_rps);
  connections_.set_limit(settings.max_conns);
  per_address_.store(settings.max_conns_per_ip, std::memory_order_relaxed);
  allow_uids_.with([&](std::vector<std::uint32_t>& uids) { uids = settings.allow_uids; });
}

bool Admission::is_allowed(const io::PeerAddress& peer) {
  return !peer.local || peer.same_user || allow_uids_.with([&](const std::vector<std::uint32_t>& uids) {
    return std::find(uids.begin(), uids.end(), peer.uid) != uids.end();
  });
}

std::size_t Admission::AddressHash::operator()(const AddressKey& key) const noexcept {
  return static_cast<std::size_t>(
      (key.words[0] ^ (key.words[1] * 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu >> 7);
}

Admission::AddressKey Admission::key_of(const io::PeerAddress& peer) noexcept {
  if (peer.local) return {{~std::uint64_t{0}, ~std::uint64_t{0}}};
  constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  AddressKey key;
  std::memcpy(key.words.data(), peer.bytes, sizeof key.words);
  // The owner of one IPv6 address has the 2^64 addresses beside it.
  if (std::memcmp(peer.bytes, mapped.data(), mapped.size()) != 0) key.words[1] = 0;
  return key;
}

bool Admission::count_address(const io::PeerAddress& peer, bool has_share) {
  const AddressKey key = key_of(peer);
  const bool capped = has_share && !peer.local;
  const std::uint64_t most = capped ? per_address_.load(std::memory_order_relaxed) : ~std::uint64_t{0};
  return addresses_[AddressHash()(key) % stripes].with([&](Counts& counts) {
    std::uint64_t& count = counts[key];
    if (count >= most) {
      if (count == 0) counts.erase(key);  // a cap of zero leaves no entry behind
      return false;
    }
    ++count;
    return true;
  });
}

void Admission::uncount_address(const io::PeerAddress& peer) {
  const AddressKey key = key_of(peer);
  addresses_[AddressHash()(key) % stripes].with([&](Counts& counts) {
    auto found = counts.find(key);
    CHECK(found != counts.end() && found->second > 0);
    if (--found->second == 0) counts.erase(found);
  });
}

bool Admission::try_connect(const io::PeerAddress& peer, bool has_share) {
  if (!connections_.try_take()) return false;
  if (count_address(peer, has_share)) return true;
  connections_.give();
  return false;
}

void Admission::disconnect(const io::PeerAddress& peer) {
  uncount_address(peer);
  connections_.give();
}

Admission::AddressKey Admission::who_gives_way(const io::PeerAddress& peer) {
  struct Most {
    AddressKey key{};
    std::uint64_t count = 0;
  } most;
  const AddressKey own = key_of(peer);
  const std::uint64_t cap = per_address_.load(std::memory_order_relaxed);
  const bool own_is_full = !peer.local && addresses_[AddressHash()(own) % stripes].with([&](Counts& counts) {
    const auto found = counts.find(own);
    return found != counts.end() && found->second >= cap;
  });
  if (own_is_full) return own;
  for (auto& stripe : addresses_)
    stripe.with([&](Counts& counts) {
      for (const auto& [key, count] : counts)
        if (count > most.count) most = {key, count};
    });
  return most.key;
}

}  // namespace cairn::serve
