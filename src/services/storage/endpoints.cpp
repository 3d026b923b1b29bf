#include "services/storage/endpoints.h"

#include <algorithm>
#include <bit>

#include "base/endpoint.h"

namespace cairn::storage {
namespace {

constexpr IpBytes any_of_six{};
constexpr IpBytes any_of_four{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

constexpr IpNetwork four{any_of_four, 96};

bool is_in(const IpBytes& ip, std::initializer_list<const char*> networks) {
  return std::ranges::any_of(networks, [&](const char* text) { return parse_network(text)->contains(ip); });
}
bool is_loopback(const IpBytes& ip) { return is_in(ip, {"127.0.0.0/8", "::1/128"}); }
// Link-local addresses mean another machine on each link; nobody connects to the others.
bool is_of_no_use(const IpBytes& ip) {
  return is_in(ip, {"169.254.0.0/16", "fe80::/10", "0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8"});
}

struct Place {
  IpBytes ip;
  std::uint16_t port;
  bool tls;
};
std::optional<Place> read_place(std::string_view text) {
  const auto endpoint = parse_peer(text);
  if (!endpoint || !endpoint->path.empty() || endpoint->port == 0) return std::nullopt;
  const auto ip = parse_ip(endpoint->host);
  if (!ip) return std::nullopt;
  return Place{*ip, endpoint->port, endpoint->tls};
}

bool is_any(const IpBytes& ip) noexcept { return ip == any_of_four || ip == any_of_six; }

format::Endpoint endpoint_of(const IpBytes& ip, std::uint16_t port, bool tls) noexcept {
  return {std::bit_cast<std::array<std::byte, 16>>(ip), port, tls};
}

}  // namespace

std::optional<format::Endpoint> parse_announced(std::string_view text) {
  const auto place = read_place(text);
  if (!place || is_any(place->ip)) return std::nullopt;
  return endpoint_of(place->ip, place->port, place->tls);
}

std::optional<std::vector<format::Endpoint>> parse_all_announced(const std::vector<std::string>& texts) {
  std::vector<format::Endpoint> all;
  for (const std::string& text : texts) {
    const auto endpoint = parse_announced(text);
    if (!endpoint || std::ranges::find(all, *endpoint) != all.end()) return std::nullopt;
    all.push_back(*endpoint);
  }
  if (all.size() > format::endpoints_max) return std::nullopt;
  return all;
}

bool Bound::is_wildcard() const noexcept {
  const auto place = read_place(address);
  return place && is_any(place->ip);
}

std::vector<format::Endpoint> choose_endpoints(const Bound& bound, std::span<const IpBytes> machine) {
  const auto place = read_place(bound.address);
  if (!place) return {};
  if (!is_any(place->ip)) return {endpoint_of(place->ip, place->port, bound.tls)};
  std::vector<format::Endpoint> chosen;
  for (const bool loopback : {false, true}) {
    for (const IpBytes& ip : machine) {
      if (chosen.size() == format::endpoints_max) break;
      if (place->ip == any_of_four && !four.contains(ip)) continue;
      if (is_of_no_use(ip) || is_loopback(ip) != loopback) continue;
      const format::Endpoint endpoint = endpoint_of(ip, place->port, bound.tls);
      if (std::ranges::find(chosen, endpoint) == chosen.end()) chosen.push_back(endpoint);
    }
    if (!chosen.empty()) break;
  }
  return chosen;
}

}  // namespace cairn::storage
