// The HTTP reference of a service, written from its table of routes: one OpenAPI 3.1 document.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/topology.h"
#include "serve/route.h"

namespace cairn::serve {

// The service's routes in the order of its table, then the ones that every service has. The same declarations
// give the same bytes. What JSON is sent and answered is referred to as a file beside the document's
// directory: `../schemas/NAME.json`.
std::string format_openapi(const ServiceDeclaration& service, std::span<const RouteSpec> routes,
                           std::string_view version);

}  // namespace cairn::serve
