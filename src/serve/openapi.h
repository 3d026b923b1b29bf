// The HTTP reference of a service, written from its table of routes: one OpenAPI 3.1 document.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/topology.h"
#include "serve/route.h"

namespace cairn::serve {

// The service's routes in the order of its table, then the routes that every service has. The same
// declarations give the same bytes. JSON bodies are described by a reference to a file beside the document's
// directory: `../schemas/NAME.json`.
std::string format_openapi(const ServiceDeclaration& service, std::span<const RouteSpec> routes,
                           std::string_view version);

}  // namespace cairn::serve
