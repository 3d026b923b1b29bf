// Origin checks: the host that a request is addressed to, and the web page that sent it.
//
// A browser can be made to send requests here that its user did not mean. With DNS rebinding, a name leads to
// a foreign page first and then to this machine; such a request has a name in `Host` that is not ours. Or a
// foreign page posts a form, or opens a WebSocket; such a request has an `Origin` that is not ours.
//   [OR-1] A listener that is bound to loopback answers only loopback names and server.names. Any other
//         listener answers every name, unless server.names is set. A Unix socket takes every name: no browser
//         reaches it.
//   [OR-2] A request that may change something, and that says that it comes from a page, is answered only if
//         the page is of the same host and port, or is in cors.origins. A request that asks for a WebSocket
//         counts as such: browsers put no bound to what a page says and reads over one.
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
