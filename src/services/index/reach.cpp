#include "services/index/reach.h"

#include <algorithm>
#include <bit>

#include "base/network.h"

namespace cairn::index {
namespace {

constexpr IpBytes v4(std::uint8_t a, std::uint8_t b = 0, std::uint8_t c = 0, std::uint8_t d = 0) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
}
constexpr IpBytes v6(std::uint8_t a, std::uint8_t b = 0) { return {a, b}; }

constexpr unsigned mapped = 96;  // bits before an IPv4 address
constexpr IpNetwork loopbacks[] = {{v4(127), mapped + 8},
                                   {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128}};
constexpr IpNetwork private_ones[] = {{v4(10), mapped + 8},
                                      {v4(172, 16), mapped + 12},
                                      {v4(192, 168), mapped + 16},
                                      {v4(100, 64), mapped + 10},
                                      {v6(0xfc), 7}};
constexpr IpNetwork link_local[] = {{v4(169, 254), mapped + 16}, {v6(0xfe, 0x80), 10}};
// Nobody listens there: this network, multicast, reserved, and what may only stand in examples.
constexpr IpNetwork nowhere[] = {{v4(0), mapped + 8},
                                 {v4(224), mapped + 3},
                                 {v4(192, 0, 2), mapped + 24},
                                 {v4(198, 51, 100), mapped + 24},
                                 {v4(203, 0, 113), mapped + 24},
                                 {v6(0xff), 8},
                                 {{0x20, 0x01, 0x0d, 0xb8}, 32}};
constexpr IpNetwork global_v6 = {v6(0x20), 3};
constexpr IpNetwork all_v4 = {v4(0), mapped};

bool is_in(const IpBytes& ip, std::span<const IpNetwork> networks) noexcept {
  return std::ranges::any_of(networks, [&](const IpNetwork& one) { return one.contains(ip); });
}

}  // namespace

bool can_reach(const format::Endpoint& endpoint, const Reach& reach) noexcept {
  const IpBytes ip = std::bit_cast<IpBytes>(endpoint.ip);
  if (is_in(ip, loopbacks)) return reach.loopback || reach.mode == io::DhtMode::local;
  if (is_in(ip, nowhere)) return false;
  const bool near = is_in(ip, private_ones) || is_in(ip, link_local);
  const bool global = !near && (all_v4.contains(ip) || global_v6.contains(ip));
  switch (reach.mode) {
    case io::DhtMode::local:
    case io::DhtMode::private_network:
      return near || global;
    case io::DhtMode::lan:
      return near;
    case io::DhtMode::public_network:
      return global;
  }
  return false;
}

bool can_reach(const format::ProviderRecord& record, const Reach& reach) noexcept {
  return record.is_withdrawal() || std::ranges::any_of(record.endpoints, [&](const format::Endpoint& one) {
           return can_reach(one, reach);
         });
}

}  // namespace cairn::index
