#include "serve/admission.h"

#include <algorithm>
#include <cstring>

namespace cairn::serve {

using Verdict = http::Handler::Admission;

Admission::Admission(const Settings& settings)
    : inflight(settings.max_inflight),
      rate(settings.max_rps),
      connections_(settings.max_conns),
      reserved_(reserved_connections),
      per_address_(settings.max_conns_per_ip),
      allow_uids_(settings.allow_uids) {}

void Admission::apply(const Settings& settings) noexcept {
  inflight.set_limit(settings.max_inflight);
  rate.set_rate(settings.max_rps);
  connections_.set_limit(settings.max_conns);
  per_address_.store(settings.max_conns_per_ip, std::memory_order_relaxed);
  allow_uids_.with([&](std::vector<std::uint32_t>& uids) { uids = settings.allow_uids; });
}

bool Admission::is_allowed(const io::PeerAddress& local_peer) {
  return local_peer.same_user || allow_uids_.with([&](const std::vector<std::uint32_t>& uids) {
    return std::find(uids.begin(), uids.end(), local_peer.uid) != uids.end();
  });
}

std::size_t Admission::AddressHash::operator()(const AddressKey& key) const noexcept {
  return static_cast<std::size_t>(
      (key.words[0] ^ (key.words[1] * 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu >> 7);
}

Admission::AddressKey Admission::key_of(const io::PeerAddress& peer) noexcept {
  AddressKey key;
  std::memcpy(key.words.data(), peer.bytes, sizeof key.words);
  return key;
}

bool Admission::count_address(const io::PeerAddress& peer) {
  const AddressKey key = key_of(peer);
  const std::uint64_t most = per_address_.load(std::memory_order_relaxed);
  return addresses_[AddressHash()(key) % stripes].with([&](Counts& counts) {
    std::uint64_t& count = counts[key];
    if (count >= most) return false;
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

Verdict Admission::connect_for_health() {
  return reserved_.try_take() ? Verdict::reserved : Verdict::refused;
}

Verdict Admission::connect(const io::PeerAddress& peer) {
  if (peer.local && !is_allowed(peer)) return Verdict::refused;
  if (connections_.try_take()) {
    if (peer.local || count_address(peer)) return Verdict::welcome;
    connections_.give();
  }
  return connect_for_health();
}

void Admission::disconnect(const io::PeerAddress& peer, Verdict admission) {
  if (admission == Verdict::reserved) {
    reserved_.give();
  } else {
    if (!peer.local) uncount_address(peer);
    connections_.give();
  }
}

}  // namespace cairn::serve
