#include "base/endpoint.h"

#include "base/ascii.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace cairn {
namespace {

bool is_ipv4(const std::string& host, in_addr& address) noexcept {
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool is_ipv6(const std::string& host, in6_addr& address) noexcept {
  return ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool is_host_name(std::string_view host) noexcept {
  constexpr std::size_t longest = 253;
  if (host.empty() || host.size() > longest || host.front() == '-' || host.front() == '.') return false;
  // A host of digits and dots alone is a wrong address, not a name.
  const bool letters = std::ranges::any_of(host, [](char c) { return c != '.' && (c < '0' || c > '9'); });
  return letters &&
         std::ranges::all_of(host, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '.'; });
}

}  // namespace

bool Endpoint::is_loopback() const noexcept {
  if (!path.empty()) return true;
  in_addr four{};
  if (is_ipv4(host, four)) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  if (is_ipv6(host, six)) return IN6_IS_ADDR_LOOPBACK(&six);
  return host == "localhost";
}

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  if (text.starts_with("unix:")) {
    if (text.size() == 5) return std::nullopt;
    return Endpoint{.host = {}, .port = 0, .path = std::string(text.substr(5))};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  Endpoint endpoint;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (problem != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;

  std::string_view host = text.substr(0, colon);
  in_addr four{};
  in6_addr six{};
  if (host.starts_with('[') && host.ends_with(']')) {
    endpoint.host = host.substr(1, host.size() - 2);
    if (!is_ipv6(endpoint.host, six)) return std::nullopt;
  } else {
    endpoint.host = host;
    if (!is_ipv4(endpoint.host, four) && !is_host_name(host)) return std::nullopt;
  }
  return endpoint;
}

std::optional<Endpoint> parse_peer(std::string_view text) {
  constexpr std::string_view plain = "http://", encrypted = "https://";
  const bool tls = text.starts_with(encrypted);
  if (!tls && !text.starts_with(plain)) return parse_endpoint(text);
  text.remove_prefix(tls ? encrypted.size() : plain.size());
  while (text.ends_with('/')) text.remove_suffix(1);
  if (text.find('/') != text.npos) return std::nullopt;
  auto endpoint = parse_endpoint(text);
  if (!endpoint) endpoint = parse_endpoint(std::string(text) + (tls ? ":443" : ":80"));
  if (endpoint) endpoint->tls = tls;
  return endpoint;
}

std::string format_endpoint(const Endpoint& endpoint) {
  if (!endpoint.path.empty()) return "unix:" + endpoint.path;
  const bool brackets = endpoint.host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
                  : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

}  // namespace cairn
