#include "base/network.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstring>

namespace cairn {
namespace {

std::optional<unsigned> parse_bits(std::string_view text) noexcept {
  std::uint8_t value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool shortest = text.size() == 1 || !text.starts_with('0');
  if (error != std::errc{} || stop != end || !shortest) return std::nullopt;
  return value;
}

}  // namespace

bool IpNetwork::contains(const IpBytes& ip) const noexcept {
  for (unsigned bit = 0; bit < bits; bit += 8) {
    const unsigned mask = bits - bit >= 8 ? 0xffu : 0xff00u >> (bits - bit) & 0xffu;
    if (((ip[bit / 8] ^ bytes[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

bool IpNetwork::has_host_bits() const noexcept {
  for (unsigned bit = bits; bit < 128; ++bit)
    if ((bytes[bit / 8] & (0x80u >> bit % 8)) != 0) return true;
  return false;
}

std::optional<IpNetwork> parse_network(std::string_view text) noexcept {
  const std::size_t slash = text.find('/');
  char host[INET6_ADDRSTRLEN] = {};
  if (slash == std::string_view::npos || slash >= sizeof host || text.find('\0') != std::string_view::npos)
    return std::nullopt;
  std::memcpy(host, text.data(), slash);
  const auto bits = parse_bits(text.substr(slash + 1));
  std::array<std::uint8_t, 4> v4;
  IpNetwork network;
  if (inet_pton(AF_INET, host, v4.data()) == 1) {
    if (!bits || *bits > 32) return std::nullopt;
    network = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, v4[0], v4[1], v4[2], v4[3]}, 96u + *bits};
  } else {
    if (inet_pton(AF_INET6, host, network.bytes.data()) != 1 || !bits || *bits > 128) return std::nullopt;
    network.bits = *bits;
  }
  return network;
}

std::optional<IpBytes> parse_ip(std::string_view text) noexcept {
  char room[INET6_ADDRSTRLEN + 4] = {};
  if (text.size() > INET6_ADDRSTRLEN || text.find('/') != std::string_view::npos) return std::nullopt;
  std::memcpy(room, text.data(), text.size());
  std::memcpy(room + text.size(), text.find(':') == std::string_view::npos ? "/32" : "/128", 4);
  const auto network = parse_network({room, std::strlen(room)});
  return network ? std::optional(network->bytes) : std::nullopt;
}

std::string format_ip(const IpBytes& ip) {
  constexpr std::uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool v4 = std::memcmp(ip.data(), mapped, sizeof mapped) == 0;
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? ip.data() + sizeof mapped : ip.data(), text, sizeof text);
  return text;
}

}  // namespace cairn
