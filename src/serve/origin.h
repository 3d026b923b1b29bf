// Whom a request believes to be talking to, and whose page sent it.
//
// A browser can be made to send requests here that its user did not mean: a name that first led to a foreign
// page and then to this machine (DNS rebinding), or a foreign page that posts a form. The first kind comes
// with a name that is not ours in `Host`, the second with an `Origin` that is not.
//   [OR-1] On a listener that is bound to loopback only loopback names and server.names are answered; on
//   another
//         one any, unless server.names is set. A Unix socket takes any: no browser reaches it.
//   [OR-2] A request that may change something and says that it comes from a page is answered only if the
//   page is
//         of the same host and port, or in cors.origins.
#pragma once

#include <string_view>

#include "serve/request.h"
#include "serve/settings.h"

namespace cairn::serve {

// `misdirected` (OR-1), `forbidden` (OR-2) or `ok`.
Error check_origin(const Request& request, const Settings& settings);

// `localhost`, names below it, 127.0.0.0/8 and ::1. Without brackets and port.
bool is_loopback_name(std::string_view name);

}  // namespace cairn::serve
