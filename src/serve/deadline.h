// How long a client is willing to wait: Request-Timeout (seconds), Deadline (RFC 3339), X-Deadline-Ms.
#pragma once

#include "base/units.h"
#include "http/fields.h"

namespace cairn::serve {

// The instant at which the request's time ends: `longest` from now, or earlier if the client says so. A
// header that does not parse is ignored, because a header can only shorten the time.
Instant request_deadline(const http::Fields& fields, Instant now, WallTime wall, Duration longest) noexcept;

}  // namespace cairn::serve
