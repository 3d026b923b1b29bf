// The only place that decodes a request path. The result is in normal form: routes and services compare it as
// it is and never decode again.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::http {

// Decodes percent-escapes. The result is `raw` itself when it holds none, else a view into `room`, which is
// made as large as it takes. malformed: not starting with '/', %2F, an escape that is not two hex digits,
// control characters (also escaped, so %00), backslash (also escaped), `.` and `..` segments (also escaped),
// an escape that hides another escape (%252e), bytes that are not UTF-8.
Result<std::string_view> decode_path(std::string_view raw, std::string& room);

}  // namespace cairn::http
