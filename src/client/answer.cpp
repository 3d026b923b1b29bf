#include "client/answer.h"

#include <fmt/format.h>

namespace cairn::client {

Failure not_understood(std::string asked, const Error& error, std::string_view detail) {
  Failure failure;
  if (error.code == ErrorCode::integrity)
    failure = Failure(Error(error.code, error.context, Side::upstream));
  else
    failure = Failure(ErrorCode::upstream,
                      fmt::format("the server's answer was not understood: {}",
                                  detail.empty() ? std::string_view(error.context) : detail),
                      Side::upstream);
  failure.asked = std::move(asked);
  return failure;
}

std::unexpected<Failure> about_another(std::string asked, std::string what) {
  Failure failure(ErrorCode::integrity, std::move(what), Side::upstream);
  failure.asked = std::move(asked);
  return fail(std::move(failure));
}

}  // namespace cairn::client
