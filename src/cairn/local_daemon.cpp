#include "cairn/local_daemon.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cairn/data_directory.h"
#include "cairn/services.h"
#include "io/lock_file.h"

namespace cairn::cli {
namespace {

using Bytes = std::array<unsigned char, 16>;

// An IPv4 address as the IPv6 address that maps it. Nothing: a name.
std::optional<Bytes> parse_host(const std::string& host) {
  Bytes bytes{};
  // The network layer does not resolve this name by DNS either.
  const std::string& numeric = host == "localhost" ? "127.0.0.1" : host;
  if (inet_pton(AF_INET6, numeric.c_str(), bytes.data()) == 1) return bytes;
  bytes = {};
  bytes[10] = bytes[11] = 0xff;
  if (inet_pton(AF_INET, numeric.c_str(), bytes.data() + 12) == 1) return bytes;
  return std::nullopt;
}

constexpr Bytes any_v4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};
constexpr Bytes any_v6{};

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat left{}, right{};
  return stat(a.c_str(), &left) == 0 && stat(b.c_str(), &right) == 0 && left.st_dev == right.st_dev &&
         left.st_ino == right.st_ino;
}

// Whether a listener at `announced` answers at `asked`, a loopback address.
bool covers(const Endpoint& announced, const Endpoint& asked) {
  if (announced.path.empty() != asked.path.empty()) return false;
  if (!asked.path.empty()) return is_same_file(announced.path, asked.path);
  if (announced.port != asked.port || !asked.is_loopback()) return false;
  const auto there = parse_host(announced.host), here = parse_host(asked.host);
  if (!there || !here) return false;
  if (*there == *here) return true;
  // A wildcard address covers its own family only: whether `::` takes IPv4 too depends on the system.
  return *there == any_v4 ? std::equal(any_v4.begin(), any_v4.begin() + 12, here->begin())
                          : *there == any_v6 && asked.host.find(':') != std::string::npos;
}

// The loopback address at which this machine reaches a listener. Nothing: there is none.
std::optional<Endpoint> as_loopback(Endpoint announced) {
  if (!announced.path.empty() || announced.is_loopback()) return announced;
  const auto host = parse_host(announced.host);
  if (host == any_v4)
    announced.host = "127.0.0.1";
  else if (host == any_v6)
    announced.host = "::1";
  else
    return std::nullopt;
  return announced;
}

// The daemon's files must belong to the owner of the capability. Without one there is nothing to protect.
bool is_trusted(const std::string& data, const struct stat& about) {
  struct stat capability{};
  if (lstat(admin_capability_path(data).c_str(), &capability) != 0) return true;
  return about.st_uid == capability.st_uid;
}

std::optional<Endpoint> find_socket(const std::string& data, std::string_view service) {
  const std::string path = fmt::format("{}/{}.sock", data, service == "gateway" ? "cairn" : service);
  struct stat about{};
  if (stat(path.c_str(), &about) != 0 || !S_ISSOCK(about.st_mode) || !is_trusted(data, about))
    return std::nullopt;
  return Endpoint{.host = {}, .port = 0, .path = path};
}

std::vector<Endpoint> read_announced(const std::string& data, std::string_view service) {
  const std::string path = lock_path(data, service);
  struct stat about{};
  if (lstat(path.c_str(), &about) != 0 || !is_trusted(data, about)) return {};
  std::vector<Endpoint> endpoints;
  for (const std::string& text : io::LockFile::read_announced(path))
    if (auto endpoint = parse_peer(text)) endpoints.push_back(std::move(*endpoint));
  return endpoints;
}

}  // namespace

std::vector<Endpoint> find_daemon(const std::string& data, std::string_view service) {
  std::vector<Endpoint> found;
  if (auto socket = find_socket(data, service)) found.push_back(std::move(*socket));
  for (Endpoint& one : read_announced(data, service)) {
    const auto reached = as_loopback(std::move(one));
    if (reached && std::ranges::none_of(found, [&](const Endpoint& had) { return covers(had, *reached); }))
      found.push_back(*reached);
  }
  return found;
}

bool is_daemon(const std::string& data, const Endpoint& endpoint) {
  for (const ServiceEntry& service : services()) {
    if (const auto socket = find_socket(data, service.name); socket && covers(*socket, endpoint)) return true;
    for (const Endpoint& announced : read_announced(data, service.name))
      if (covers(announced, endpoint)) return true;
  }
  return false;
}

}  // namespace cairn::cli
