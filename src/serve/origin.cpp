#include "serve/origin.h"

#include <algorithm>

#include "base/endpoint.h"
#include "http/scan.h"

namespace cairn::serve {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool has(const std::vector<std::string>& list, std::string_view text) noexcept {
  return std::ranges::any_of(list, [&](const std::string& one) { return equal_ignoring_case(one, text); });
}

// The name in a host that the parser has found valid: `name`, `name:port`, `[address]:port`.
std::string_view name_in(std::string_view host) noexcept {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  std::string_view name = host.substr(0, host.find(':'));
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

bool is_ours(const Request& request, const Settings& settings) {
  if (request.peer().local) return true;
  if (!request.peer().loopback && settings.names.empty()) return true;
  const std::string_view host = request.head().host();
  if (host.empty()) return true;  // only HTTP/1.0 may send no host
  const std::string_view name = name_in(host);
  return is_loopback_name(name) || has(settings.names, name) || equal_ignoring_case(name, settings.bound);
}

bool may_change(const Request& request, const Settings& settings) noexcept {
  constexpr http::MethodSet safe = http::Method::get | http::Method::head | http::Method::options;
  const http::Fields& fields = request.fields();
  // A page may read no answer of another origin, but it may speak over any WebSocket that is opened to it.
  const bool reads = safe.has(request.head().method) && request.exchange.upgrade.empty();
  if (!fields.has(http::FieldName::origin) || reads) return true;
  if (fields.repeated(http::FieldName::origin)) return false;
  const std::string_view origin = fields.get(http::FieldName::origin);
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;  // `null`, or nothing
  const std::string_view from = origin.substr(scheme + 3);
  const std::string_view host = request.head().host();
  return (!host.empty() && equal_ignoring_case(from, host)) || has(settings.origins, origin) ||
         has(settings.origins, from);
}

}  // namespace

bool is_loopback_name(std::string_view name) {
  // The fast path of nearly every request.
  if (name == "127.0.0.1" || equal_ignoring_case(name, "localhost")) return true;
  if (name.size() > 10 && equal_ignoring_case(name.substr(name.size() - 10), ".localhost")) return true;
  // A longer name is no address.
  return name.size() < 64 && Endpoint{.host = std::string(name), .port = 0}.is_loopback();
}

Error check_origin(const Request& request, const Settings& settings) {
  if (!is_ours(request, settings))
    return {ErrorCode::misdirected, "this host is not one of server.names", Side::client};
  if (!may_change(request, settings))
    return {ErrorCode::forbidden,
            "a page of this origin may neither change anything nor switch protocols: see cors.origins",
            Side::client};
  return {ErrorCode::ok, ""};
}

}  // namespace cairn::serve
