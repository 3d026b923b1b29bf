#include "serve/authorizer.h"

#include "base/ascii.h"

#include <functional>

#include "base/check.h"

namespace cairn::serve {
namespace {

constexpr std::string_view scheme = "bearer";

}  // namespace

std::string_view find_bearer(const http::Fields& fields) noexcept {
  if (fields.repeated(http::FieldName::authorization)) return {};
  std::string_view value = fields.get(http::FieldName::authorization);
  if (value.size() <= scheme.size() || value[scheme.size()] != ' ') return {};
  for (std::size_t i = 0; i < scheme.size(); ++i)
    if (lower(value[i]) != scheme[i]) return {};
  value.remove_prefix(scheme.size());
  while (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

Authorizer::Authorizer(KeySnapshotPtr keys) : keys_(std::move(keys)) { CHECK(keys_ != nullptr); }

Authorizer::~Authorizer() { forget(); }

void Authorizer::forget() noexcept {
  for (Known& each : known_) {
    crypto::wipe(each.token);
    each.token.clear();
    each.macaroon = {};
  }
}

void Authorizer::take_keys(KeySnapshotPtr keys) {
  if (keys->version <= keys_->version) return;
  keys_ = std::move(keys);
  forget();
}

Result<const Authorizer::Known*> Authorizer::find_genuine(const http::Fields& fields) {
  const std::string_view token = find_bearer(fields);
  if (token.empty()) return fail(ErrorCode::unauthorized, "a capability is needed", Side::client);
  Known& known = known_[std::hash<std::string_view>()(token) % known_max];
  // In full and in constant time: the client may be guessing at another client's token.
  if (known.token.empty() || !crypto::equal_constant_time(as_bytes(known.token), as_bytes(token))) {
    ++verified_;
    TRY(crypto::Macaroon macaroon, crypto::authenticate(keys_->ring, token));
    crypto::wipe(known.token);
    known.token = token;
    known.macaroon = std::move(macaroon);
    known.principal = make_principal(known.macaroon);
  }
  return &known;
}

Result<std::string_view> Authorizer::find_tenant(const http::Fields& fields,
                                                 const crypto::CapabilityRequest& request) {
  TRY(const Known* known, find_genuine(fields));
  const std::string_view tenant = known->principal.tenant;
  crypto::CapabilityRequest asked = request;
  asked.tenant = tenant;
  return !tenant.empty() && crypto::check_bearer(known->macaroon, asked) ? tenant : std::string_view();
}

Result<const Principal*> Authorizer::authorize(const http::Fields& fields,
                                               const crypto::CapabilityRequest& request) {
  TRY(const Known* known, find_genuine(fields));
  // If the service has no tenants of its own, the request counts as one of the tenant that the token is bound
  // to.
  crypto::CapabilityRequest asked = request;
  if (asked.tenant.empty()) asked.tenant = known->principal.tenant;
  TRY_VOID(crypto::check_caveats(known->macaroon, asked));
  return &known->principal;
}

}  // namespace cairn::serve
