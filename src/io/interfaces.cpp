#include "io/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

namespace cairn::io {
namespace {

std::optional<IpBytes> read_address(const sockaddr& from) noexcept {
  IpBytes ip{};
  if (from.sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &from, sizeof four);
    ip[10] = ip[11] = 0xff;
    std::memcpy(ip.data() + 12, &four.sin_addr, sizeof four.sin_addr);
    return ip;
  }
  if (from.sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 six{};
  std::memcpy(&six, &from, sizeof six);
  std::memcpy(ip.data(), &six.sin6_addr, sizeof six.sin6_addr);
  return ip;
}

}  // namespace

std::vector<IpBytes> interface_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  std::vector<IpBytes> found;
  for (const ifaddrs* each = all.get(); each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    if (const auto ip = read_address(*each->ifa_addr)) found.push_back(*ip);
  }
  return found;
}

}  // namespace cairn::io
