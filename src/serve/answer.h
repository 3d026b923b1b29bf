// The one place that turns an Error into a status and a body.
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "serve/request.h"

namespace cairn::serve {

// Writes {"error":{"code","message","corr_id","retry_after"?,"details"?}} and its headers. `retry_after`, in
// seconds, is given exactly when waiting helps. An error that has no HTTP answer of its own becomes one that
// a client can act on: a deadline 504, a stop 503, everything else 500.
void answer_error(Request& request, const Error& error, std::optional<unsigned> retry_after = {});

// The same with `details`, a JSON object ready to send, for errors whose documentation describes it. For a
// handler that answers an error itself and then returns success.
void answer_error(Request& request, const Error& error, std::string_view details);

// The code that a client is told for this error.
ErrorCode public_code(const Error& error) noexcept;

}  // namespace cairn::serve
