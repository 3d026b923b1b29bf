// The first-party caveats: the conditions that a capability may put on a request, and whether a request meets
// them.
//
//   op = storage.put storage.get     the operation is one of these; several op caveats intersect
//   svc = storage index              the service is one of these; several intersect
//   tenant = T                       the request's tenant is T
//   addr = b3:…                      the request is about this address
//   name ^ maps/                     the request is about a name that starts so; the prefix ends with `/`
//   expires < 2026-01-31T12:00:00Z   the time is before this one
//   max_bytes <= 1048576             the request stores at most this many bytes
//   ip = 10.0.0.0/8                  the peer's address is in this network, IPv4 or IPv6
//
// Exactly one blank where one is shown. All caveats must hold; one that is unknown or malformed does not.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/result.h"
#include "base/units.h"
#include "crypto/macaroon.h"

namespace cairn::crypto {

// The properties of a request that caveats test. A property that the request does not have stays empty, and a
// caveat about it refuses the request.
struct CapabilityRequest {
  std::string_view op = {};
  std::string_view service = {};
  std::string_view tenant = {};
  std::optional<Address> address = {};
  std::string_view name = {};
  WallTime now = {};
  // How many bytes the request would store, 0 for none. nullopt while that is unknown: a max_bytes caveat
  // then refuses the request.
  std::optional<std::uint64_t> bytes = {};
  std::optional<std::array<std::uint8_t, 16>> ip = {};  // IPv6, or IPv4 mapped
  // Came over a Unix socket: a peer without an IP, on this machine. An ip caveat treats it as 127.0.0.1, or
  // as ::1, whichever it allows.
  bool local = false;
};

// `forbidden` unless every caveat holds. Does not verify the signature: authorize() does both.
Result<> check_caveats(const Macaroon& macaroon, const CapabilityRequest& request) noexcept;

// The same as far as it can be judged before it is known what the request is about: `forbidden` unless the
// caveats about who asks and when (tenant, expires, ip) hold, and every other is known and well formed.
Result<> check_bearer(const Macaroon& macaroon, const CapabilityRequest& request) noexcept;

// The operations and services there are. A token may name others (of a newer version): they match nothing.
std::span<const std::string_view> known_operations() noexcept;
std::span<const std::string_view> known_services() noexcept;

// `malformed` with a context that says what is wrong with the caveat. Stricter than check_caveats in one
// thing: an operation or service that does not exist is refused here, where a person can still mend it.
Result<> validate_caveat(std::string_view caveat) noexcept;

// Format caveats. They do not check operations, services, tenant, prefix and network: validate_caveat() does.
std::string op_caveat(std::span<const std::string_view> operations);
std::string svc_caveat(std::span<const std::string_view> services);
std::string tenant_caveat(std::string_view tenant);
std::string addr_caveat(const Address& address);
std::string name_caveat(std::string_view prefix);
std::string expires_caveat(WallTime time);
std::string max_bytes_caveat(std::uint64_t bytes);
std::string ip_caveat(std::string_view network);

// The tenant that the caveats bind the token to; nullopt when they name none, or none for which all of them
// could hold. It is a word: 1 to 64 of `[A-Za-z0-9._-]`. Only of a verified macaroon.
std::optional<std::string_view> find_tenant(const Macaroon& macaroon) noexcept;

}  // namespace cairn::crypto
