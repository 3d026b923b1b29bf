#include "client/failure.h"

#include <fmt/format.h>

#include "codec/json_reader.h"

namespace cairn::client {

ErrorCode code_of_status(int status) noexcept {
  switch (status) {
    case 400:
      return ErrorCode::malformed;
    case 401:
      return ErrorCode::unauthorized;
    case 403:
      return ErrorCode::forbidden;
    case 404:
      return ErrorCode::not_found;
    case 405:
      return ErrorCode::method_not_allowed;
    case 408:
      return ErrorCode::timeout_read;
    case 409:
      return ErrorCode::conflict;
    case 410:
      return ErrorCode::pruned;
    case 412:
      return ErrorCode::precondition_failed;
    case 413:
      return ErrorCode::body_cap;
    case 415:
      return ErrorCode::unsupported_type;
    case 416:
      return ErrorCode::range_not_satisfiable;
    case 421:
      return ErrorCode::misdirected;
    case 429:
      return ErrorCode::busy;
    case 501:
      return ErrorCode::not_implemented;
    case 503:
      return ErrorCode::not_ready;
    case 504:
      return ErrorCode::timeout;
    case 507:
      return ErrorCode::storage_full;
    default:
      return status >= 500 ? ErrorCode::upstream : ErrorCode::invalid;
  }
}

Failure parse_failure(int status, std::string_view body) {
  Failure failure(code_of_status(status), fmt::format("the server answered {}", status), Side::upstream);
  failure.status = status;
  codec::JsonReader reader;
  const auto root = reader.parse(body);
  if (!root) return failure;
  auto outer = root->object();
  if (!outer) return failure;
  auto inner = outer->required_object("error");
  if (!inner) return failure;
  if (auto code = inner->required_string("code"))
    if (auto known = find_error_code(*code)) failure.error.code = *known;
  if (auto message = inner->required_string("message"); message && !message->empty())
    failure.message = *message;
  if (auto corr = inner->required_string("corr_id")) failure.corr_id = *corr;
  if (auto after = inner->optional_uint("retry_after"); after && *after && **after < 86400)
    failure.retry_after = Duration::seconds(static_cast<std::int64_t>(**after));
  return failure;
}

}  // namespace cairn::client
