#include "crypto/caveat.h"

#include "base/ascii.h"

#include <algorithm>
#include <charconv>

#include "base/network.h"
#include "base/utf8.h"

namespace cairn::crypto {
namespace {

// How a request relates to a caveat's value. One function serves both uses, so there is one grammar: a check
// needs `holds`, a validation needs `malformed`.
struct Ruling {
  bool holds = false;
  const char* malformed = nullptr;
};
constexpr Ruling malformed(const char* reason) { return {false, reason}; }

bool is_word(std::string_view text, std::size_t longest) noexcept {
  return !text.empty() && text.size() <= longest && std::ranges::all_of(text, [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
  });
}

// Calls `each` with the words of `set`; false when they are not words with one blank between.
template <class Each>
bool for_each_word(std::string_view set, Each each) noexcept {
  while (true) {
    const std::size_t blank = set.find(' ');
    const std::string_view word = set.substr(0, blank);
    if (!is_word(word, 64)) return false;
    each(word);
    if (blank == std::string_view::npos) return true;
    set.remove_prefix(blank + 1);
  }
}

Ruling rule_set(std::string_view set, std::string_view asked, const char* reason) noexcept {
  bool found = false;
  if (!for_each_word(set, [&](std::string_view word) { found |= word == asked; })) return malformed(reason);
  return {found};
}

Ruling rule_op(std::string_view value, const CapabilityRequest& request) noexcept {
  return rule_set(value, request.op,
                  "op: expected operations with one blank between, as in `op = storage.get`");
}

Ruling rule_svc(std::string_view value, const CapabilityRequest& request) noexcept {
  return rule_set(value, request.service,
                  "svc: expected services with one blank between, as in `svc = storage`");
}

Ruling rule_tenant(std::string_view value, const CapabilityRequest& request) noexcept {
  if (!is_word(value, 64)) return malformed("tenant: expected 1 to 64 letters, digits, `.`, `_` or `-`");
  return {value == request.tenant};
}

Ruling rule_addr(std::string_view value, const CapabilityRequest& request) noexcept {
  const auto address = parse_address(value);
  if (!address) return malformed("addr: expected `b3:` and 64 hex digits");
  return {request.address == *address};
}

Ruling rule_name(std::string_view prefix, const CapabilityRequest& request) noexcept {
  if (!prefix.ends_with('/')) return malformed("name: the prefix must end with `/`");
  const bool control = std::ranges::any_of(prefix, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
  if (control || !is_utf8(prefix)) return malformed("name: the prefix is not plain UTF-8 text");
  return {request.name.starts_with(prefix)};
}

Ruling rule_expires(std::string_view value, const CapabilityRequest& request) noexcept {
  const auto end = parse_rfc3339(value);
  if (!end) return malformed("expires: expected a time as in `expires < 2026-01-31T12:00:00Z`");
  return {request.now < *end};
}

template <class Number>
std::optional<Number> parse_decimal(std::string_view text) noexcept {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool shortest = text.size() == 1 || !text.starts_with('0');
  if (error != std::errc{} || stop != end || !shortest || text.starts_with('-')) return std::nullopt;
  return value;
}

Ruling rule_max_bytes(std::string_view value, const CapabilityRequest& request) noexcept {
  const auto most = parse_decimal<std::uint64_t>(value);
  if (!most)
    return malformed("max_bytes: expected a number of bytes in digits, as in `max_bytes <= 1048576`");
  return {request.bytes && *request.bytes <= *most};
}

constexpr IpBytes mapped(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
}
constexpr IpBytes loopback_v4 = mapped(127, 0, 0, 1);
constexpr IpBytes loopback_v6 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

Ruling rule_ip(std::string_view value, const CapabilityRequest& request) noexcept {
  const auto network = parse_network(value);
  if (!network) return malformed("ip: expected a network, as in `ip = 10.0.0.0/8` or `ip = 2001:db8::/32`");
  if (network->has_host_bits()) return malformed("ip: the address has bits set beyond its prefix length");
  if (request.ip) return {network->contains(*request.ip)};
  return {request.local && (network->contains(loopback_v4) || network->contains(loopback_v6))};
}

struct Kind {
  std::string_view head;
  Ruling (*rule)(std::string_view value, const CapabilityRequest& request) noexcept;
  const char* broken;
  bool of_bearer = false;  // about who asks and when, whatever is asked for
};
constexpr Kind kinds[] = {
    {"op = ", rule_op, "capability: not for this operation"},
    {"svc = ", rule_svc, "capability: not for this service"},
    {"tenant = ", rule_tenant, "capability: not for this tenant", true},
    {"addr = ", rule_addr, "capability: not for this address"},
    {"name ^ ", rule_name, "capability: not for this name"},
    {"expires < ", rule_expires, "capability: expired", true},
    {"max_bytes <= ", rule_max_bytes, "capability: not for so many bytes, or for a body of unknown length"},
    {"ip = ", rule_ip, "capability: not for this peer's address", true},
};

const Kind* find_kind(std::string_view caveat) noexcept {
  const auto* kind = std::ranges::find_if(kinds, [&](const Kind& k) { return caveat.starts_with(k.head); });
  return kind == std::end(kinds) ? nullptr : kind;
}

constexpr std::string_view operations[] = {
    "storage.get",     "storage.list",   "storage.put",      "storage.pin",      "storage.delete",
    "storage.admin",   "index.read",     "index.write",      "index.pin",        "index.facets",
    "index.admin",     "registry.read",  "registry.propose", "registry.approve", "registry.commit",
    "registry.govern", "registry.admin", "edge.get",         "edge.admin",       "gateway.admin",
    "node.peer",
};
constexpr std::string_view services[] = {"storage", "index", "registry", "edge", "gateway"};

bool all_known(std::string_view set, std::span<const std::string_view> known) noexcept {
  bool all = true;
  for_each_word(set, [&](std::string_view word) { all &= std::ranges::find(known, word) != known.end(); });
  return all;
}

std::string join(std::string_view head, std::span<const std::string_view> words) {
  std::string text(head);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += ' ';
    text += words[i];
  }
  return text;
}

std::string join(std::string_view head, std::string_view value) { return join(head, {&value, 1}); }

enum class Judged : std::uint8_t { all, of_bearer };

Result<> check(const Macaroon& macaroon, const CapabilityRequest& request, Judged judged) noexcept {
  for (const Caveat& caveat : macaroon.caveats) {
    const Kind* kind = caveat.third_party() ? nullptr : find_kind(caveat.text);
    if (kind == nullptr) return fail(ErrorCode::forbidden, "capability: an unknown caveat", Side::client);
    const Ruling ruling = kind->rule(std::string_view(caveat.text).substr(kind->head.size()), request);
    if (ruling.malformed != nullptr) return fail(ErrorCode::forbidden, ruling.malformed, Side::client);
    if (!ruling.holds && (judged == Judged::all || kind->of_bearer))
      return fail(ErrorCode::forbidden, kind->broken, Side::client);
  }
  return {};
}

}  // namespace

Result<> check_caveats(const Macaroon& macaroon, const CapabilityRequest& request) noexcept {
  return check(macaroon, request, Judged::all);
}

Result<> check_bearer(const Macaroon& macaroon, const CapabilityRequest& request) noexcept {
  return check(macaroon, request, Judged::of_bearer);
}

std::span<const std::string_view> known_operations() noexcept { return operations; }
std::span<const std::string_view> known_services() noexcept { return services; }

Result<> validate_caveat(std::string_view caveat) noexcept {
  auto refuse = [](const char* reason) { return fail(ErrorCode::malformed, reason, Side::client); };
  const Kind* kind = find_kind(caveat);
  if (kind == nullptr)
    return refuse(
        "unknown caveat: expected one of `op = …`, `svc = …`, `tenant = …`, `addr = b3:…`, `name ^ …/`, "
        "`expires < …`, `max_bytes <= …`, `ip = …/…`, with one blank on each side of the sign");
  const std::string_view value = caveat.substr(kind->head.size());
  if (const Ruling ruling = kind->rule(value, CapabilityRequest{}); ruling.malformed != nullptr)
    return refuse(ruling.malformed);
  if (kind->rule == rule_op && !all_known(value, operations)) return refuse("op: there is no such operation");
  if (kind->rule == rule_svc && !all_known(value, services)) return refuse("svc: there is no such service");
  return {};
}

std::string op_caveat(std::span<const std::string_view> words) { return join("op = ", words); }
std::string svc_caveat(std::span<const std::string_view> words) { return join("svc = ", words); }
std::string tenant_caveat(std::string_view tenant) { return join("tenant = ", tenant); }
std::string addr_caveat(const Address& address) { return join("addr = ", format_address(address)); }
std::string name_caveat(std::string_view prefix) { return join("name ^ ", prefix); }
std::string expires_caveat(WallTime time) { return join("expires < ", format_rfc3339(time)); }
std::string max_bytes_caveat(std::uint64_t bytes) { return join("max_bytes <= ", std::to_string(bytes)); }
std::string ip_caveat(std::string_view network) { return join("ip = ", network); }

std::optional<std::string_view> find_tenant(const Macaroon& macaroon) noexcept {
  std::optional<std::string_view> found;
  for (const Caveat& caveat : macaroon.caveats) {
    const Kind* kind = caveat.third_party() ? nullptr : find_kind(caveat.text);
    if (kind == nullptr || kind->rule != rule_tenant) continue;
    const std::string_view tenant = std::string_view(caveat.text).substr(kind->head.size());
    if (!is_word(tenant, 64) || tenant != found.value_or(tenant)) return std::nullopt;
    found = tenant;
  }
  return found;
}

}  // namespace cairn::crypto
