// Endpoint: the address of a listener: HOST:PORT, or unix:PATH.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

struct Endpoint {
  std::string host;  // an address without brackets, or a name
  std::uint16_t port = 0;
  std::string path = {};  // of a Unix socket; then host and port are empty
  bool tls = false;       // to connect to: the peer speaks TLS, and is called `host`

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  // 127.0.0.0/8, ::1 and `localhost`. Any other name may resolve to anything.
  bool is_loopback() const noexcept;
};

// `127.0.0.1:7410`, `[::1]:7410`, `host.example:80`, `unix:/run/cairn/x.sock`. Port 0 asks the kernel for
// one.
std::optional<Endpoint> parse_endpoint(std::string_view text);
// A place to connect to: as above, or a URL without a path: `http://HOST[:PORT]`, `https://HOST[:PORT]`.
std::optional<Endpoint> parse_peer(std::string_view text);
// HOST:PORT or unix:PATH, whatever is spoken there.
std::string format_endpoint(const Endpoint& endpoint);

}  // namespace cairn
